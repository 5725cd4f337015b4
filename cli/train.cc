#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/page_options.h"
#include "cli/plan_text.h"
#include "cli/session_start.h"
#include "cli/train_budget.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/file.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/models/weights/weights.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/plan/step_plan_json.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/report/step_page.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/train/micro_batch_trainer.h"
#include "plimsoll/train/trainer.h"

namespace plimsoll::cli {
namespace {

constexpr double kMostRate = 1e30;  // as a float it is finite

struct TrainOptions {
  ModelOptions step;
  BudgetOptions budget;
  PageOptions page;
  int64_t steps = 10;
  double rate = 1e-3;
  uint64_t seed = 1;
  bool no_measure = false;
  std::string save;  // a file of weights; empty: none
  bool no_micro_batches = false;
};

// Parameters, and what the model keeps beside them, under the names and in the layouts of PyTorch.
void save_weights(const TrainOptions& options, run::Executor& executor) {
  if (options.save.empty()) return;
  const models::ModelInfo info = find_plain_model(options.step);
  const program::Program& program = executor.program();
  std::vector<models::TensorToStore> tensors;
  for (const auto* values : {&program.parameters, &program.state}) {
    for (const program::Value value : *values) {
      const program::ValueInfo& one = program[value];
      if (one.category != Category::parameter || !is_floating(one.type.dtype)) continue;
      const Shape shape = one.type.shape.shape();
      const bool turned = models::is_stored_transposed(info, one.name) && shape.rank() == 2;
      tensors.push_back({one.name, turned ? Shape{shape[1], shape[0]} : shape,
                         [&executor, value, shape, turned](std::span<float> into, int64_t first) {
                           const std::vector<float> all = run::read_floats(executor, value);
                           for (size_t i = 0; i < into.size(); ++i) {
                             const int64_t at = first + static_cast<int64_t>(i);
                             const int64_t place = turned ? at % shape[0] * shape[1] + at / shape[0] : at;
                             into[i] = all[static_cast<size_t>(place)];
                           }
                         }});
    }
  }
  models::write_safetensors(options.save, tensors);
}

struct StepRecord {
  float loss;
  double seconds;
};

double median_seconds(const std::vector<StepRecord>& records) {
  std::vector<double> seconds;
  for (const StepRecord& record : records) seconds.push_back(record.seconds);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// ", about 12.3 s a step, 2 min 03 s left": nothing before the first step is done.
std::string time_left(const std::vector<StepRecord>& records, int64_t left) {
  if (records.empty()) return {};
  const double each = median_seconds(records);
  return fmt::format(", about {} a step, {} left", format_seconds(each),
                     format_seconds(each * static_cast<double>(left)));
}

// Goes on to the last step, or until `stop` says so between two.
template <class T>
void run_steps(T& trainer, int64_t steps, const std::function<std::string()>& note, const std::function<bool()>& stop,
               std::vector<StepRecord>& records) {
  while (trainer.steps() < steps && !stop()) {
    show_progress(
        fmt::format("step {} of {}{}", trainer.steps() + 1, steps, time_left(records, steps - trainer.steps())));
    const auto start = std::chrono::steady_clock::now();
    const float loss = trainer.step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    records.push_back({loss, took.count()});
    tell("step {:>{}}  loss {:.6f}  {}{}\n", trainer.steps(), std::to_string(steps).size(), loss,
         format_seconds(took.count()), note());
  }
}

nlohmann::ordered_json head_json(const TrainOptions& options, const program::Bindings& sizes, int threads) {
  return {{"model", options.step.model},
          {"sizes", sizes},
          {"optimizer", options.step.optimizer},
          {"precision", options.step.precision},
          {"threads", threads}};
}

void print_json(nlohmann::ordered_json json, const std::vector<StepRecord>& records, int64_t peak_bytes) {
  json["process_peak_bytes"] = peak_bytes;
  if (const auto peak = cgroup_peak_bytes()) json["cgroup_peak_bytes"] = *peak;
  json["median_step_s"] = median_seconds(records);
  for (const StepRecord& record : records) {
    json["steps"].push_back({{"loss", record.loss}, {"seconds", record.seconds}});
  }
  cli::print_json(json);
}

void print_head(const TrainOptions& options, int threads, const std::vector<StepRecord>& records) {
  erase_progress();
  print("{}: {} steps on {} threads, {} a step (median)\n", options.step.model, records.size(), threads,
        format_seconds(median_seconds(records)));
  print("  loss       {:.6f} at first, {:.6f} at last\n", records.front().loss, records.back().loss);
}

// Ops are timed only where someone looks at the times.
void time_ops(const TrainOptions& options, run::Session& session) {
  if (!options.page.wants_any()) return;
  for (size_t i = 0; i < session.executors(); ++i) session.executor(i).time_ops();
}

void write_files(const TrainOptions& options, report::StepPageInput input, report::TrainedRun run,
                 const std::vector<StepRecord>& records) {
  std::vector<double> seconds;
  for (const StepRecord& record : records) {
    run.steps.push_back({record.loss, record.seconds});
    seconds.push_back(record.seconds);
  }
  if (!options.page.chrome_trace.empty()) {
    write_file(options.page.chrome_trace, report::chrome_trace(run.history, input.title, seconds));
  }
  write_page(options.page, [&] { return report::train_page(input, run); });
}

void write_unplanned_files(const TrainOptions& options, const StartedSession& started,
                           const std::vector<StepRecord>& records) {
  if (!options.page.wants_any()) return;
  const train::ModelForms model(request_of(options.step, {}));
  run::Executor& executor = started.session->executor();
  report::TrainedRun run{{{"step", executor.program(), executor.memory(), executor.op_seconds()}}};
  run.predicted_peak_bytes = started.predicted_peak_bytes;
  run.process_peak_bytes = process_peak_bytes();
  write_files(options, {.title = setting_text(model.setting()), .request = model.request()}, std::move(run), records);
}

// In the memory that the step takes as it is.
void run_unplanned(const TrainOptions& options) {
  const StartedSession started = start_session(options.step, options.seed);
  time_ops(options, *started.session);
  train::Trainer trainer(started.session->executor(), {.rate = options.rate, .seed = options.seed});
  std::vector<StepRecord> records;
  run_steps(
      trainer, options.steps, [] { return std::string(); }, [] { return false; }, records);
  write_unplanned_files(options, started, records);
  save_weights(options, started.session->executor());
  if (options.step.json) {
    nlohmann::ordered_json json = head_json(options, started.sizes, started.threads);
    json["predicted_peak_bytes"] = started.predicted_peak_bytes;
    json["arena_bytes"] = started.session->executor().arena_bytes();
    return print_json(std::move(json), records, process_peak_bytes());
  }
  print_head(options, started.threads, records);
  print_peaks(peaks_of(started));
}

// A run within a budget, which may change between steps.
struct BudgetRun {
  const TrainOptions& options;
  const train::ModelForms& model;
  BudgetFile file;
  Budget budget;
  std::vector<StepRecord> records = {};
  int64_t earlier_peak_bytes = 0;  // of the process, before the budget was last changed

  // Beside the new budget, what the process took before says nothing.
  void forget_peak() {
    earlier_peak_bytes = peak_bytes();
    restart_process_peak();
  }
  int64_t peak_bytes() const { return std::max(earlier_peak_bytes, process_peak_bytes()); }
  std::string note() const {
    return fmt::format("  {} of {}", format_bytes(process_peak_bytes()), format_bytes(budget.bytes));
  }
  train::TrainerOptions trainer() const {
    return {.rate = options.rate, .seed = options.seed, .steps_before = static_cast<int64_t>(records.size())};
  }
  bool is_done() const { return static_cast<int64_t>(records.size()) == options.steps; }
};

template <class T>
void run_steps(T& trainer, BudgetRun& run) {
  run_steps(
      trainer, run.options.steps, [&] { return run.note(); }, [&] { return run.file.changes(run.budget); },
      run.records);
}

void train_in_micro_batches(BudgetRun& run, train::Fit& fit) {
  train::MicroBatchTrainer trainer(train::micro_batches_of(*fit.session, fit.plan.sizes, run.model.split_of(fit.plan)),
                                   run.trainer());
  if (shows_progress()) {
    trainer.on_micro_batch = [&, all = static_cast<int64_t>(fit.plan.sizes.size())](int64_t done) {
      const double each = run.records.empty() ? fit.plan.predicted_s : median_seconds(run.records);
      const double left = each * static_cast<double>(all - done) / static_cast<double>(all);
      show_progress(fmt::format("step {} of {}, micro-batch {} of {}, {} left of it{}", trainer.steps() + 1,
                                run.options.steps, done + 1, all, format_seconds(left), run.note()));
    };
  }
  run_steps(trainer, run);
}

// Until the last step, or until the budget changes.
void train_fitted(BudgetRun& run, train::Fit& fit) {
  if (fit.plan.in_micro_batches()) return train_in_micro_batches(run, fit);
  train::Trainer trainer(fit.session->executor(), run.trainer());
  run_steps(trainer, run);
}

int64_t spilled_bytes() {
  const auto file = kernels::spill_file();
  return file ? file->bytes() : 0;
}

nlohmann::ordered_json plan_json(const train::Fit& fit, const Budget& budget) {
  nlohmann::ordered_json json = {{"budget_bytes", budget.bytes},
                                 {"budget_source", budget.source},
                                 {"unplanned_bytes", fit.plan.unplanned_bytes},
                                 {"overhead_bytes", fit.overhead_bytes},
                                 {"margin_bytes", fit.margin_bytes},
                                 {"arena_bytes", fit.plan.arena_bytes},
                                 {"predicted_peak_bytes", fit.predicted_peak_bytes},
                                 {"predicted_step_s", fit.plan.predicted_s},
                                 {"spilled_bytes", spilled_bytes()},
                                 {"micro_batches", fit.plan.sizes},
                                 {"form", plan::to_json(fit.plan.form)}};
  json["measures"] = plan::to_json(fit.plan.measures());
  return json;
}

void print_measured(const train::Fit& fit) {
  print_bytes("predicted", fit.predicted_peak_bytes, "of the process");
  print_bytes("process", process_peak_bytes(), "at most");
  if (const auto peak = cgroup_peak_bytes()) print_bytes("cgroup", *peak, "at most, with the kernel's own");
}

nlohmann::ordered_json refusal_json(const BudgetRun& run, const train::NoFit& no_fit,
                                    const std::vector<train::Alternative>& ways) {
  nlohmann::ordered_json json = {{"model", run.options.step.model},
                                 {"sizes", run.model.sizes()},
                                 {"optimizer", run.options.step.optimizer},
                                 {"precision", run.options.step.precision},
                                 {"fits", false},
                                 {"steps_done", run.records.size()},
                                 {"budget_bytes", run.budget.bytes},
                                 {"budget_source", run.budget.source},
                                 {"smallest_budget_bytes", no_fit.smallest_budget_bytes()},
                                 {"overhead_bytes", no_fit.smallest_overhead_bytes()},
                                 {"smallest_arena_bytes", no_fit.smallest_arena_bytes()},
                                 {"binding_op", no_fit.refusal.binding_op},
                                 {"why_whole", run.model.why_whole()}};
  json["alternatives"] = alternatives_json(ways);
  return json;
}

int refuse(const BudgetRun& run, const train::NoFit& no_fit) {
  const TrainOptions& options = run.options;
  const auto ways = train::alternatives_to(run.model, options.budget.spill_dir, run.budget, no_fit);
  write_page(options.page, [&] {
    const report::StepPageInput input{
        .title = setting_text(run.model.setting()),
        .request = run.model.request(),
        .limit = report::PageFigure{"the budget's share for tensors", no_fit.refusal.budget_bytes}};
    return report::refusal_page(input, no_fit.refusal, ways);
  });
  if (options.step.json) {
    cli::print_json(refusal_json(run, no_fit, ways));
  } else {
    tell("plimsoll: {}\n", train::refusal_text(run.model, run.budget, no_fit, ways));
  }
  return kFinding;
}

// What is printed of a run that came to its end.
void report(const BudgetRun& run, const train::Fit& fit) {
  const int threads = fit.session->executor().threads();
  if (run.options.step.json) {
    nlohmann::ordered_json json = head_json(run.options, run.model.sizes(), threads);
    json.update(plan_json(fit, run.budget));
    json["peak_since_budget_bytes"] = process_peak_bytes();
    return print_json(std::move(json), run.records, run.peak_bytes());
  }
  print_head(run.options, threads, run.records);
  print_measured(fit);
}

void write_files(const BudgetRun& run, train::Fit& fit) {
  if (!run.options.page.wants_any()) return;
  report::TrainedRun trained{report::history_of(fit.plan, *fit.session), &fit.plan};
  trained.predicted_peak_bytes = fit.predicted_peak_bytes;
  trained.process_peak_bytes = run.peak_bytes();
  trained.overhead_bytes = fit.overhead_bytes;
  trained.budget_bytes = run.budget.bytes;
  const report::PageFigure limit{"the budget's share for tensors", run.budget.bytes - fit.overhead_bytes,
                                 "what is left beside code, libraries and stacks"};
  write_files(run.options, {.title = setting_text(run.model.setting()), .request = run.model.request(), .limit = limit},
              std::move(trained), run.records);
}

int run_within(const TrainOptions& options) {
  Budget budget = read_budget(options.budget, options.step.device);
  BudgetFile file(options.budget.budget_file, budget);
  const train::ModelForms model(request_of(options.step, options.budget.form));
  tell_notes(model.request().model, model.request().step);
  BudgetRun run{options, model, std::move(file), budget};
  auto fitted = train::fit_model(model, options.budget.spill_dir, budget);
  while (true) {
    if (const auto* no_fit = std::get_if<train::NoFit>(&fitted)) return refuse(run, *no_fit);
    auto& fit = std::get<train::Fit>(fitted);
    if (run.records.empty()) model.start(fit.session->executor(), options.seed);
    if (!options.step.json) print_plan(fit, run.budget, costs_text(fit.plan.costs()));
    time_ops(options, *fit.session);
    train_fitted(run, fit);
    if (run.is_done()) break;
    fitted = train::refit_model(model, options.budget.spill_dir, run.budget, fit);
    run.forget_peak();
  }
  save_weights(options, std::get<train::Fit>(fitted).session->executor());
  report(run, std::get<train::Fit>(fitted));
  write_files(run, std::get<train::Fit>(fitted));
  return kDone;
}

// Options that only say how to fit would else do nothing, in silence.
void require_budget_for(const BudgetOptions& options) {
  const auto refuse = [](bool given, std::string_view name) {
    if (given) throw ArgumentError(fmt::format("{} says how to fit a budget: give one with --budget", name));
  };
  if (!options.budget.empty()) return;
  refuse(!options.budget_file.empty(), "--budget-file");
  refuse(!options.spill_dir.empty(), "--spill-dir");
  refuse(!options.form.allow.empty(), "--allow");
  refuse(!options.form.measure, "--no-measure");
  refuse(!options.form.micro_batches, "--no-grad-accumulation");
  refuse(options.form.no_recompute, "--no-recompute");
  refuse(options.strict, "--strict");
}

void run(const TrainOptions& options, int& status) {
  if (options.steps < 1) throw ArgumentError(fmt::format("--steps is {}, expected at least 1", options.steps));
  require_budget_for(options.budget);
  require_page(options.page);
  if (options.budget.budget.empty()) return run_unplanned(options);
  status = run_within(options);
}

}  // namespace

void add_train(const Command& app, int& status) {
  const Command verb = app.add_verb("train", "Train a model on synthetic data, within a budget");
  verb.footer(
      "Examples: plimsoll train mlp --steps 20 --batch 64\n"
      "          plimsoll train p11 --batch 256 --budget 2GiB --steps 2");
  const auto options = std::make_shared<TrainOptions>();
  add_model_options(verb, options->step);
  add_device_option(verb, options->step);
  add_optimizer_option(verb, options->step);
  verb.add_option("--precision", options->step.precision, "fp32 bf16 fp16").shows_default();
  verb.add_option("--budget", options->budget.budget, "Bytes that the whole process may take: 2GiB, auto");
  verb.add_option("--budget-file", options->budget.budget_file,
                  "A file with a size in it, read between steps: where that changes, the step is planned again");
  verb.add_option("--allow", options->budget.form.allow, kAllowHelp);
  verb.add_option("--spill-dir", options->budget.spill_dir, "Folder on a disk for what does not fit in memory");
  verb.add_flag("--no-grad-accumulation", options->no_micro_batches, "Take the batch as a whole");
  verb.add_flag("--no-recompute", options->budget.form.no_recompute, "Compute nothing again");
  verb.add_flag("--no-measure", options->no_measure, "Do not time kernels before the step is planned");
  verb.add_flag("--strict", options->budget.strict, "Refuse a budget above what the machine has");
  add_page_options(verb, options->page);
  verb.add_option("--steps", options->steps, "Steps to run").shows_default();
  verb.add_option("--lr,--rate", options->rate, "Learning rate").shows_default().in_range(0, kMostRate);
  verb.add_option("--seed", options->seed, "Of parameters, data and dropout").shows_default();
  verb.add_option("--save", options->save, "Write the weights at the end: a .safetensors file");
  verb.callback([options, &status] {
    options->budget.form.measure = !options->no_measure;
    options->budget.form.micro_batches = !options->no_micro_batches;
    run(*options, status);
  });
}

}  // namespace plimsoll::cli

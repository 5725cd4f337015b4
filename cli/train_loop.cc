// `plimsoll train` under a budget for the whole process: plan, loop, report.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/console.h"
#include "cli/train_options.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/device/device.h"
#include "plimsoll/device/gather.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/models/adapt.h"
#include "plimsoll/models/weights/weights.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/plan/step_plan_json.h"
#include "plimsoll/report/plan_text.h"
#include "plimsoll/report/rank_waits.h"
#include "plimsoll/report/run_text.h"
#include "plimsoll/train/budget_file.h"
#include "plimsoll/train/choose_sharding.h"
#include "plimsoll/train/overhead.h"
#include "plimsoll/train/process_ranks.h"

namespace plimsoll::cli {
namespace {

constexpr double kMostClip = 1e30;
constexpr double kMostSteps = 1e12;
constexpr double kLineEvery = 1;            // second, of long runs on data
constexpr int kInterrupted = 128 + SIGINT;  // as a shell has it; of several ranks in any case

// A run within a budget, which may change between steps.
struct BudgetRun {
  const TrainOptions& options;
  const train::ModelForms& model;
  train::BudgetFile file;
  Budget budget;
  train::RankPart part = {};
  train::RunData data = {};
  TrainedSteps steps = {};
  std::vector<report::ProfiledStep> profiled = {};
  report::OpTimes times = {};
  double waited_s = 0;             // for data, until now
  int64_t earlier_peak_bytes = 0;  // of the process, before the budget was last changed
  std::chrono::steady_clock::time_point told = {};
  bool has_least_data = false;  // buffers of data are the least there can be, for the step to fit

  // Beside the new budget, what the process took before says nothing.
  void forget_peak() {
    earlier_peak_bytes = peak_bytes();
    restart_process_peak();
  }
  int64_t peak_bytes() const { return std::max(earlier_peak_bytes, process_peak_bytes()); }
  // Of the batch of all ranks.
  program::Bindings sizes() const {
    program::Bindings sizes = model.sizes();
    if (part) sizes["batch"] = part.batch;
    return sizes;
  }
  std::string note() const {
    return fmt::format("  {} of {}", format_bytes(process_peak_bytes()), format_bytes(budget.bytes));
  }
};

// A new budget that was asked for while the run went on, and that does not fit.
struct BudgetRefused {
  train::NoFit no_fit;
};

std::string metrics_text(const train::Metrics& metrics) {
  std::string text = fmt::format("loss {:.6f}", metrics.loss);
  if (metrics.accuracy) text += fmt::format("  accuracy {:.2f} %", 100 * *metrics.accuracy);
  if (metrics.perplexity) text += fmt::format("  perplexity {:.2f}", *metrics.perplexity);
  return text + fmt::format("  ({} samples)", format_count(metrics.samples));
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
  print("{}", report::bytes_line("predicted", fit.predicted_peak_bytes, "of the process"));
  print("{}", report::bytes_line("process", process_peak_bytes(), "at most"));
  if (const auto peak = cgroup_peak_bytes()) {
    print("{}", report::bytes_line("cgroup", *peak, "at most, with the kernel's own"));
  }
}

nlohmann::ordered_json refusal_json(const BudgetRun& run, const train::NoFit& no_fit,
                                    const std::vector<train::Alternative>& ways) {
  nlohmann::ordered_json json = {{"model", run.options.step.model},
                                 {"sizes", run.sizes()},
                                 {"optimizer", run.options.step.optimizer},
                                 {"precision", run.options.step.precision},
                                 {"fits", false},
                                 {"steps_done", run.steps.size()},
                                 {"budget_bytes", run.budget.bytes},
                                 {"budget_source", run.budget.source},
                                 {"smallest_budget_bytes", no_fit.smallest_budget_bytes()},
                                 {"overhead_bytes", no_fit.smallest_overhead_bytes()},
                                 {"smallest_arena_bytes", no_fit.smallest_arena_bytes()},
                                 {"binding_op", no_fit.refusal.binding_op},
                                 {"why_whole", run.model.why_whole()}};
  json["alternatives"] = report::alternatives_json(ways);
  return json;
}

// Of several ranks, what would fit one alone says nothing.
std::vector<train::Alternative> alternatives(const BudgetRun& run, const train::NoFit& no_fit) {
  if (run.part) return {};
  return train::alternatives_to(run.model, run.options.budget.spill_dir, run.budget, no_fit);
}

int refuse(const BudgetRun& run, const train::NoFit& no_fit) {
  if (!run.part.is_first()) return kFinding;
  const TrainOptions& options = run.options;
  const auto ways = alternatives(run, no_fit);
  write_page(options.page, [&] {
    const report::StepPageInput input{
        .title = report::setting_text(run.model.setting()),
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

nlohmann::ordered_json result_json(const train::LoopResult& result) {
  nlohmann::ordered_json json = {{"steps_done", result.steps}};
  if (result.metrics) json["eval_loss"] = result.metrics->loss;
  if (result.metrics && result.metrics->accuracy) json["eval_accuracy"] = *result.metrics->accuracy;
  if (result.metrics && result.metrics->perplexity) json["eval_perplexity"] = *result.metrics->perplexity;
  if (!result.checkpoint.empty()) json["checkpoint"] = result.checkpoint;
  if (result.failed_checkpoints > 0) json["failed_checkpoints"] = result.failed_checkpoints;
  return json;
}

void print_result(const train::LoopResult& result) {
  if (result.metrics) print("  evaluation {}\n", metrics_text(*result.metrics));
  if (!result.checkpoint.empty()) print("  checkpoint {}\n", result.checkpoint);
}

// What is printed of a run that came to its end.
void report(const BudgetRun& run, const train::Fit& fit, const train::LoopResult& result,
            const train::RankWaits& waits) {
  const int threads = fit.session->executor().threads();
  if (run.options.step.json) {
    nlohmann::ordered_json json = head_json(run.options, run.sizes(), threads);
    if (run.part) json["ranks"] = run.part.ranks->ranks();
    if (run.part) json["shard"] = run.options.shard;
    if (run.part) json["waits"] = report::waits_json(waits);
    json.update(plan_json(fit, run.budget));
    json["peak_since_budget_bytes"] = process_peak_bytes();
    json.update(result_json(result));
    return print_train_json(std::move(json), run.steps, run.peak_bytes());
  }
  print_head(run.options, threads, run.steps);
  print_result(result);
  print("{}", report::waits_line(waits));
  print_measured(fit);
}

void write_pages(const BudgetRun& run, train::Fit& fit) {
  if (!run.options.page.wants_any() || !run.part.is_first()) return;
  report::TrainedRun trained{report::history_of(fit.plan, *fit.session), &fit.plan};
  trained.steps = run.steps;
  trained.predicted_peak_bytes = fit.predicted_peak_bytes;
  trained.process_peak_bytes = run.peak_bytes();
  trained.overhead_bytes = fit.overhead_bytes;
  trained.budget_bytes = run.budget.bytes;
  const report::PageFigure limit{"the budget's share for tensors", run.budget.bytes - fit.overhead_bytes,
                                 "what is left beside code, libraries and stacks"};
  write_train_files(
      run.options, {.title = report::setting_text(run.model.setting()), .request = run.model.request(), .limit = limit},
      std::move(trained));
}

// With what its batch was waited for.
void profile_step(BudgetRun& run, train::FittedTraining& training, double seconds) {
  if (run.options.profile.empty()) return;
  run.times.add(*training.fitted().session);
  const double waited_s = run.data.batches ? run.data.batches->pipeline().stats().wait_seconds : 0;
  run.profiled.push_back({seconds, waited_s - std::exchange(run.waited_s, waited_s)});
}

void profile_run(const BudgetRun& run, train::Fit& fit, const train::RankWaits& waits) {
  if (run.options.profile.empty()) return;
  report::Profile profile =
      report::profile_of(report::setting_text(run.model.setting()), *fit.session, run.times, &fit.plan);
  profile.steps = run.profiled;
  profile.waits = waits;
  profile.predicted_peak_bytes = fit.predicted_peak_bytes;
  profile.measured_peak_bytes = process_peak_bytes();
  if (run.data.batches) {
    const train::data::Pipeline& pipeline = run.data.batches->pipeline();
    const train::data::PipelineStats stats = pipeline.stats();
    profile.data = {.planned_bytes = pipeline.max_bytes(), .peak_bytes = stats.peak_bytes, .workers = stats.workers};
  }
  write_profile(run.options, profile);
}

void show_step(BudgetRun& run, const train::LoopOptions::Step& step) {
  const int64_t all = step.steps_in_all.value_or(step.step);
  run.steps.push_back({step.loss, step.seconds});
  const auto now = std::chrono::steady_clock::now();
  const bool is_long = run.data.batches && step.step != 1 && step.step != all;
  if (is_long && (shows_progress() || std::chrono::duration<double>(now - run.told).count() < kLineEvery)) {
    return show_progress(fmt::format("step {} of {}, loss {:.4f}, {:.0f} samples/s{}{}", step.step, all, step.loss,
                                     static_cast<double>(step.samples) / step.seconds,
                                     report::time_left(run.steps, all - step.step), run.note()));
  }
  run.told = now;
  if (run.data.batches) {
    tell("step {:>{}}  loss {:.6f}  {:.0f} samples/s{}{}\n", step.step, std::to_string(all).size(), step.loss,
         static_cast<double>(step.samples) / step.seconds, report::time_left(run.steps, all - step.step), run.note());
    return;
  }
  tell("step {:>{}}  loss {:.6f}  {}{}\n", step.step, std::to_string(all).size(), step.loss,
       format_seconds(step.seconds), run.note());
}

void show_micro_batches(BudgetRun& run, train::FittedTraining& training) {
  if (!shows_progress()) return;
  training.set_on_micro_batch([&](int64_t done) {
    const train::Fit& fit = training.fitted();
    const auto all = static_cast<int64_t>(fit.plan.sizes.size());
    const double each = run.steps.empty() ? fit.plan.predicted_s : report::median_seconds(run.steps);
    const double left = each * static_cast<double>(all - done) / static_cast<double>(all);
    show_progress(fmt::format("step {}, micro-batch {} of {}, {} left of it{}", training.steps() + 1, done + 1, all,
                              format_seconds(left), run.note()));
  });
}

void show_checkpoint(const train::CheckpointFolder::Outcome& outcome) {
  if (!outcome.error.empty()) {
    tell("plimsoll: no checkpoint of step {}: {}\n  the run goes on, and earlier checkpoints stay\n", outcome.step,
         outcome.error);
  }
}

// "4 ranks, 16 of 64 samples each, sharded: optimizer\n"
std::string ranks_text(const BudgetRun& run) {
  const bool is_even = run.part.batch % run.part.ranks->ranks() == 0;
  const std::string shard = run.options.shard == "none" ? "" : fmt::format(", sharded: {}", run.options.shard);
  return fmt::format("{} ranks, {} of {} samples each{}{}; rank 0 has\n", run.part.ranks->ranks(), run.part.samples,
                     run.part.batch, is_even ? "" : ", some one less", shard);
}

void show_plan(const BudgetRun& run, train::FittedTraining& training) {
  const train::Fit& fit = training.fitted();
  if (!run.options.step.json) {
    if (run.part) print("{}", ranks_text(run));
    print("{}", report::fit_text(fit, run.budget));
    std::fflush(stdout);  // before the progress, which goes to stderr
  }
  time_ops(run.options, *fit.session);
}

// In all; by the epochs where there are any.
int64_t steps_of(const train::LoopOptions& loop, const train::RunData& data) {
  if (loop.epochs == 0 || !data.batches) return loop.steps;
  const int64_t steps = checked_multiply(loop.epochs, data.batches->batches_per_epoch()).value_or(INT64_MAX);
  return loop.steps == 0 ? steps : std::min(loop.steps, steps);
}

train::LoopOptions loop_options(const TrainOptions& options, const train::RunData& data) {
  train::LoopOptions loop = options.loop;
  loop.steps = options.steps.value_or(options.epochs ? 0 : kUsualSteps);
  loop.epochs = options.epochs.value_or(0);
  loop.schedule.kind = train::parse_schedule(options.schedule);
  loop.schedule.rate = options.trainer.rate;
  loop.schedule.steps = steps_of(loop, data);
  loop.evaluation = data.evaluation;
  return loop;
}

// Buffers of data go with a budget that changed.
void resize_data(BudgetRun& run, train::FittedTraining& training) {
  const int64_t others = training.reserved_bytes() - run.data.reserved_bytes;
  train::limit_data(run.data, run.options.data, run.has_least_data ? 0 : run.budget.bytes);
  training.set_reserved_bytes(others + run.data.reserved_bytes);
}

// With several ranks, those whose samples it comes from: on all of them where the parameters are to blame.
void tell_not_finite(const train::RankPart& part, const train::LoopOptions::Step& step,
                     const std::optional<train::NotFinite>& here) {
  const std::string own = here ? train::text_of(*here) : "";
  const bool is_of_data = here && !here->input.empty();
  const bool is_of_all = part && device::least_over(*part.ranks, here && !is_of_data ? 1 : 0) == 1;
  const auto texts = part ? device::gather_texts(*part.ranks, own) : std::vector<std::string>{own};
  tell("plimsoll: the loss of step {} is {}\n", step.step, std::isnan(step.loss) ? "not a number" : "infinite");
  if (is_of_all) tell("  on every rank, and all inputs are finite\n");
  for (size_t rank = 0; !is_of_all && rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) tell("  {}{}\n", part ? fmt::format("rank {}: ", rank) : "", texts[rank]);
  }
  tell("  try a lower --lr, --warmup or --clip; no checkpoint is written while it is so\n");
}

// Data would come in the order of one seed, and dropout draw by the other.
void require_seed(const TrainOptions& options, const train::RunState& state) {
  if (options.trainer.seed == state.seed) return;
  throw ArgumentError(fmt::format("--seed is {}, and the run of the checkpoint has {}: resume it with --seed {}",
                                  options.trainer.seed, state.seed, state.seed));
}

void add_callbacks(train::LoopOptions& loop, BudgetRun& run, train::FittedTraining& training) {
  loop.on_step = [&](const train::LoopOptions::Step& step) {
    profile_step(run, training, step.seconds);
    show_step(run, step);
  };
  loop.on_not_finite = [&](const auto& step, const auto& here) { tell_not_finite(run.part, step, here); };
  loop.on_evaluation = [](int64_t step, const train::Metrics& metrics) {
    tell("step {}  evaluation: {}\n", step, metrics_text(metrics));
  };
  loop.on_checkpoint = show_checkpoint;
  loop.on_resume = [&run](const train::RunState& state) {
    require_seed(run.options, state);
    tell("note: goes on after step {} of a checkpoint\n", state.step);
  };
  loop.between_steps = [&](const std::function<void()>& save) {
    if (!run.file.changes(run.budget)) return;
    save();
    resize_data(run, training);
    if (auto no_fit = training.fit(run.budget)) throw BudgetRefused{std::move(*no_fit)};
    run.forget_peak();
    show_plan(run, training);
  };
  if (loop.checkpoint.folder.empty()) return;
  finish_on_interrupt();
  loop.stops = [] { return interrupting_signal() != 0; };
  if (!run.part) return;
  loop.stops = [ranks = run.part.ranks] { return device::most_over(*ranks, interrupting_signal() != 0 ? 1 : 0) > 0; };
}

// What only one rank does.
void leave_to_first(const train::RankPart& part, train::LoopOptions& loop) {
  if (part.is_first()) return;
  loop.evaluation = nullptr;
  loop.evaluate_every = 0;
  loop.log.clear();
}

// On one rank, or in another order than shards are in.
bool needs_whole_parameters(const TrainOptions& options, const models::ModelInfo& model) {
  const bool turns = models::is_stored_transposed(model, "c_attn.weight");  // as PyTorch has GPT-2
  return !options.data.evaluation_path.empty() || !options.save.empty() ||
         (turns && !options.loop.checkpoint.folder.empty());
}

void check_sharding(const TrainOptions& options, const models::ModelInfo& model) {
  if (options.shard != name(program::Sharding::parameters) || !needs_whole_parameters(options, model)) return;
  throw ArgumentError(
      "--eval-data, --save, and --checkpoint of a GPT-2 need whole parameters on one rank, and --shard parameters has "
      "none: take --shard gradients");
}

// What ranks cannot do together.
void check_for_ranks(const TrainOptions& options) {
  const auto refuse = [](bool given, std::string_view what) {
    if (given) throw ArgumentError(fmt::format("{} is not for several ranks: leave it out", what));
  };
  refuse(!options.budget.budget_file.empty(), "--budget-file");
  refuse(!options.budget.spill_dir.empty(), "--spill-dir");
  refuse(options.loop.patience > 0, "--patience");
}

train::StepRequest request_for(const TrainOptions& options) {
  ModelOptions step = options.step;
  train::StepRequest request = request_of(step, options.budget.form);
  if (options.dropout >= 0) request.model = models::with_dropout(std::move(request.model), options.dropout);
  if (options.accumulate > 1) {
    const int64_t batch = models::bindings(request.model, request.step.sizes).at("batch");
    const auto all = checked_multiply(batch, options.accumulate);
    if (!all)
      throw ArgumentError(fmt::format("--accumulate {}: batches of {} are too many", options.accumulate, batch));
    request.step.sizes["batch"] = *all;
  }
  request.step.train.weight_decay = options.weight_decay;
  if (options.clip > 0) request.step.train.clip_norm = options.clip;
  if (request.step.train.optimizer == program::Optimizer::lion) request.step.train.beta2 = 0.99;
  return request;
}

// How the run ended, where it did not come to its last step.
int end_of(const TrainOptions& options, const train::RankPart& part, const train::LoopResult& result) {
  if (result.end == train::EndOfLoop::no_better) {
    tell("note: ended after step {}: {} evaluations were no better\n", result.steps, options.loop.patience);
  }
  if (result.end != train::EndOfLoop::stopped) return kDone;
  tell("plimsoll: stopped after step {}; checkpoint: {}\n  go on with the same command and --resume\n", result.steps,
       result.checkpoint.empty() ? "none" : result.checkpoint);
  return part || interrupting_signal() == 0 ? kInterrupted : 128 + interrupting_signal();
}

void tell_data(const train::RunData& data, const std::string& precision) {
  if (data.batches) tell("data: {}\n", data.batches->pipeline().source().describe());
  if (!data.evaluation) return;
  tell("evaluation: {}\n", data.evaluation->pipeline().source().describe());
  if (precision != "f32") tell("note: evaluation computes in f32, with the f32 weights of training\n");
}

void tell_skipped(std::string_view what, const train::Skipped& skipped) {
  if (skipped.samples == 0) return;
  tell("plimsoll: {} samples{} could not be read and were skipped\n", format_count(skipped.samples), what);
  for (const std::string& message : skipped.messages) tell("  {}\n", message);
}

// Ranks read parts of batches, and may come to the same sample in different epochs. Rank 0 alone evaluates.
void tell_skipped(const BudgetRun& run) {
  if (run.data.batches) tell_skipped("", train::skipped_of(run.data, run.part));
  if (!run.data.evaluation) return;
  const train::data::PipelineStats stats = run.data.evaluation->pipeline().stats();
  tell_skipped(" of the evaluation", {stats.skipped, stats.skipped_messages});
}

// Of the steps that are counted: all but the first.
train::RankWaits waits_of(const BudgetRun& run, train::FittedTraining& training) {
  double seconds = 0;
  for (size_t i = 1; i < run.steps.size(); ++i) seconds += run.steps[i].seconds;
  return train::gather_waits(run.part, *training.fitted().session, seconds);
}

int run_loop(BudgetRun& run, train::FittedTraining& training, train::LoopOptions options) {
  show_micro_batches(run, training);
  add_callbacks(options, run, training);
  leave_to_first(run.part, options);
  train::Loop loop(training, run.budget, run.data.batches, std::move(options));
  const train::LoopResult result = loop.run();
  erase_progress();
  if (run.part.is_first()) save_weights(run.options, training.fitted().session->executor());
  tell_skipped(run);
  if (!result.log_error.empty()) tell("plimsoll: the log lacks lines: {}\n", result.log_error);
  const train::RankWaits waits = waits_of(run, training);
  report(run, training.fitted(), result, waits);
  if (run.part.is_first()) profile_run(run, training.fitted(), waits);
  write_pages(run, training.fitted());
  return end_of(run.options, run.part, result);
}

// What the process of a rank may give an arena, before there is a plan: a card's own memory, or the host's.
int64_t arena_of_rank(const TrainOptions& options, const train::RankPart& part, const Budget& budget) {
  if (part.ranks->on_streams() != nullptr) {
    return std::max<int64_t>(0, budget.bytes - device::find_device(options.step.device).overhead_bytes());
  }
  const int64_t held = process_memory().bytes() + part.ranks->working_bytes();
  return std::max<int64_t>(0, train::arena_within(budget.bytes, train::booked_overhead({}, held)));
}

// That MPI may take for a while; of a card it takes nothing.
int64_t working_bytes_of(const train::RankPart& part) {
  return part && part.ranks->on_streams() == nullptr ? part.ranks->working_bytes() : 0;
}

// Rank 0 decides for all.
std::string choose_sharding(const TrainOptions& options, const train::StepRequest& request, const train::RankPart& part,
                            const Budget& budget) {
  std::string chosen;
  if (part.is_first()) {
    const bool is_on_card = part.ranks->on_streams() != nullptr;
    const plan::PlanOptions asked{.budget_bytes = arena_of_rank(options, part, budget),
                                  .step_bytes = is_on_card ? 0 : train::kStepBytes,
                                  .recompute = request.recompute};
    chosen = name(train::choose_sharding(train::request_of_part(request, part, program::Sharding::none), asked,
                                         train::possible_shardings(needs_whole_parameters(options, request.model))));
  }
  return device::broadcast_text(*part.ranks, std::move(chosen));
}

}  // namespace

int train_within(const TrainOptions& given) {
  TrainOptions options = given;
  if (train::joined_ranks()) {
    check_for_ranks(options);
    options.step.device = train::join_cards(options.step.device);
  }
  Budget budget =
      train::agreed_budget(read_budget(options.budget, options.step.device), options.budget.budget == "auto");
  train::BudgetFile file(options.budget.budget_file, budget, terminal_listener().on_note);
  train::StepRequest request = request_for(options);
  const int64_t batch = models::bindings(request.model, request.step.sizes).at("batch");
  const train::RankPart part = train::part_of_rank(train::joined_ranks(), batch);
  request.threads = train::agreed_threads(request.threads);
  train::set_bucket(request, options.bucket);
  if (part) request.link = train::measure_link(*part.ranks);
  if (options.shard == train::kAutoSharding) {
    options.shard = part ? choose_sharding(options, request, part, budget) : "none";
  }
  check_sharding(options, request.model);
  const train::ModelForms model(train::request_of_part(std::move(request), part, train::parse_sharding(options.shard)));
  tell_notes(model.request().model, model.request().step);
  BudgetRun run{options, model, std::move(file), budget, part};
  train::DataOptions data = options.data;
  data.batch = batch;
  data.part = {part.first_sample, part.samples};
  run.data = train::open_data(data, model, options.trainer.seed);
  tell_data(run.data, options.step.precision);
  train::LoopOptions loop = loop_options(options, run.data);
  std::optional<train::FittedTraining> training;
  std::optional<train::NoFit> no_fit;
  for (const int64_t share : {budget.bytes, int64_t{0}}) {  // buffers that suit the budget, else the least
    train::limit_data(run.data, options.data, share);
    if (!loop.checkpoint.folder.empty()) {
      loop.checkpoint.staging_bytes = train::staging_bytes_for(model.kept_bytes(), share);
    }
    const int64_t reserved =
        train::Loop::reserved_bytes(model, loop, share) + run.data.reserved_bytes + working_bytes_of(part);
    train::TrainerOptions trainer = options.trainer;
    trainer.part = part;
    training.emplace(model, options.budget.spill_dir, trainer, reserved);
    run.has_least_data = share == 0;
    no_fit = training->fit(budget);
    if (!no_fit || reserved == 0) break;
  }
  if (no_fit) return refuse(run, *no_fit);
  show_plan(run, *training);
  try {
    return run_loop(run, *training, loop);
  } catch (const BudgetRefused& refused) {
    return refuse(run, refused.no_fit);
  }
}

bool TrainOptions::needs_loop() const {
  const train::CheckpointOptions& checkpoint = loop.checkpoint;
  return !data.path.empty() || !data.evaluation_path.empty() || epochs || schedule != "constant" ||
         loop.schedule.warmup != 0 || weight_decay != 0 || clip != 0 || accumulate != 1 || dropout >= 0 ||
         loop.patience != 0 || loop.evaluate_every != 0 || !checkpoint.folder.empty() || checkpoint.every != 0 ||
         checkpoint.resume || !loop.log.empty();
}

void add_loop_options(const Command& verb, TrainOptions& options) {
  add_data_options(verb, options);
  verb.add_option("--eval-every", options.loop.evaluate_every, "Evaluate after every N steps instead")
      .in_range(0, kMostSteps);
  verb.add_option("--patience", options.loop.patience, "Stop after N evaluations without a better loss")
      .in_range(0, kMostSteps);
  verb.add_option("--epochs", options.epochs, "Passes over the data");
  verb.add_option("--schedule", options.schedule, "Of the learning rate: constant cosine linear step").shows_default();
  verb.add_option("--warmup", options.loop.schedule.warmup, "Steps in which the learning rate grows from 0")
      .in_range(0, kMostSteps);
  verb.add_option("--drop-every", options.loop.schedule.every,
                  "Of --schedule step: divide the rate by 10 after every N steps")
      .in_range(0, kMostSteps);
  verb.add_option("--weight-decay", options.weight_decay, "Weight decay of the optimizer").in_range(0, 1);
  verb.add_option("--clip", options.clip, "Clip the global norm of the gradients to this").in_range(0, kMostClip);
  verb.add_option("--dropout", options.dropout, "Rate of every dropout of the model, in place of its own")
      .in_range(0, 1);
  verb.add_option("--accumulate", options.accumulate, "Accumulate gradients over N batches in each step");
  verb.add_option("--checkpoint", options.loop.checkpoint.folder, "Folder for checkpoints; one is written at the end");
  verb.add_option("--every", options.loop.checkpoint.every, "Write a checkpoint after every N steps")
      .in_range(0, kMostSteps);
  verb.add_option("--keep", options.loop.checkpoint.keep, "Checkpoints that stay, the newest ones")
      .shows_default()
      .in_range(1, kMostSteps);
  verb.add_flag("--resume", options.loop.checkpoint.resume, "Resume from the newest checkpoint, where there is one");
  verb.add_option("--log", options.loop.log, "Write a line of JSON for each step to this file");
}

}  // namespace plimsoll::cli

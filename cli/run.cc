#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/budget_options.h"
#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/file.h"
#include "plimsoll/kernels/convert.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/report/plan_text.h"
#include "plimsoll/report/profile.h"
#include "plimsoll/report/run_text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/train/fit_model.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::cli {
namespace {

struct RunOptions {
  ModelOptions step;
  BudgetOptions budget;
  int64_t times = 3;
  uint64_t seed = 1;
  std::string compare;  // a precision to run in as well
  std::string profile;  // a file; empty: none
};

struct Output {
  std::string name;
  program::Type type;
  double mean = 0;
  double largest = 0;            // in size
  std::vector<float> data = {};  // where it is to be compared
};

// What a run within a budget was planned to take.
struct Within {
  Budget budget;
  train::Fit fit;
};

// What is left of a run when its memory has been given back.
struct Ran {
  program::Bindings sizes;
  int threads = 1;
  train::Peaks peaks = {};
  double least_s = 0;
  std::vector<Output> outputs;
};

void add_to(Output& output, std::span<const float> values, int64_t all) {
  for (const float x : values) {
    output.mean += static_cast<double>(x) / static_cast<double>(all);
    output.largest = std::max(output.largest, std::abs(static_cast<double>(x)));
  }
}

// Without a copy of it, which would be beside the arena.
Output output_of(run::Executor& executor, program::Value value) {
  const program::ValueInfo& info = executor.program()[value];
  Output output{info.name, info.type};
  if (info.type.dtype != DType::f32 && !kernels::is_low_precision(info.type.dtype)) {
    throw ArgumentError(fmt::format("%{} is {}, expected f32, f16 or bf16", info.name, info.type.text()));
  }
  executor.view_bytes(value, [&](std::span<const std::byte> bytes) {
    if (info.type.dtype == DType::f32) {
      const std::span values(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
      return add_to(output, values, static_cast<int64_t>(values.size()));
    }
    std::array<float, 1024> block;
    const std::span values(reinterpret_cast<const uint16_t*>(bytes.data()), bytes.size() / sizeof(uint16_t));
    for (size_t first = 0; first < values.size(); first += block.size()) {
      const std::span some = values.subspan(first, std::min(block.size(), values.size() - first));
      kernels::upcast(info.type.dtype, some, block.data());
      add_to(output, std::span(block).first(some.size()), static_cast<int64_t>(values.size()));
    }
  });
  return output;
}

std::vector<Output> outputs_of(run::Executor& executor, bool with_data) {
  std::vector<Output> outputs;
  for (const program::Value value : executor.program().outputs) {
    outputs.push_back(output_of(executor, value));
    if (with_data) outputs.back().data = run::read_floats(executor, value);
  }
  return outputs;
}

// Seconds of each run.
std::vector<double> run_times(run::Session& session, int64_t times, report::OpTimes& ops) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    session.executor().step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
    ops.add(session);
    tell("run {:>{}}  {}\n", i + 1, std::to_string(times).size(), format_seconds(took.count()));
  }
  return seconds;
}

void write_profile(const RunOptions& options, run::Session& session, int64_t predicted_peak_bytes,
                   const std::vector<double>& seconds, const report::OpTimes& ops) {
  report::Profile profile = report::profile_of(options.step.model, session, ops);
  for (const double each : seconds) profile.steps.push_back({.seconds = each});
  profile.predicted_peak_bytes = predicted_peak_bytes;
  profile.measured_peak_bytes = session.executor().arena_bytes();
  write_file(options.profile, report::profile_file(profile));
  if (!options.step.json) print("{}\n", report::profile_text(profile));
}

// The fastest run.
double run_timed(const RunOptions& options, run::Session& session, int64_t predicted_peak_bytes) {
  run::Executor& executor = session.executor();
  train::fill_inputs(executor, options.seed);
  if (!options.profile.empty()) executor.time_ops();
  report::OpTimes ops;
  const std::vector<double> seconds = run_times(session, options.times, ops);
  if (!options.profile.empty()) write_profile(options, session, predicted_peak_bytes, seconds, ops);
  return *std::min_element(seconds.begin(), seconds.end());
}

Ran run_in(RunOptions options, const std::string& precision, bool profiled) {
  options.step.precision = precision;
  if (!profiled) options.profile.clear();
  const train::StartedSession started = start_session(options.step, options.seed);
  const double least_s = run_timed(options, *started.session, started.predicted_peak_bytes);
  return {started.sizes, started.threads, peaks_of(started), least_s,
          outputs_of(started.session->executor(), !options.compare.empty())};
}

// How far a result is from the right one: the length of their difference, by the length of the right one, and by that
// of what differs in it from sample to sample. (Biases do not, and hide errors where they are most of a result.)
struct Error {
  double of_result = 0;
  std::optional<double> of_differences = {};  // where there are several samples
};

double squares_around_mean(const Output& output, size_t samples) {
  const size_t size = output.data.size() / samples;
  double sum = 0;
  for (size_t i = 0; i < size; ++i) {
    double mean = 0;
    for (size_t n = 0; n < samples; ++n) mean += static_cast<double>(output.data[n * size + i]);
    mean /= static_cast<double>(samples);
    for (size_t n = 0; n < samples; ++n) sum += std::pow(static_cast<double>(output.data[n * size + i]) - mean, 2);
  }
  return sum;
}

Error error_of(const Output& found, const Output& right) {
  double difference = 0;
  double length = 0;
  for (size_t i = 0; i < right.data.size(); ++i) {
    const auto r = static_cast<double>(right.data[i]);
    difference += std::pow(static_cast<double>(found.data[i]) - r, 2);
    length += r * r;
  }
  const auto share = [&](double of) { return difference == 0 ? 0 : std::sqrt(difference / of); };
  const int64_t samples = right.type.shape.empty() ? 1 : right.type.shape[0].constant();
  if (samples < 2) return {share(length)};
  return {share(length), share(squares_around_mean(right, static_cast<size_t>(samples)))};
}

nlohmann::ordered_json json_of(const RunOptions& options, const Ran& ran, const std::optional<Ran>& compared) {
  nlohmann::ordered_json json = {{"model", options.step.model},
                                 {"sizes", ran.sizes},
                                 {"precision", options.step.precision},
                                 {"threads", ran.threads},
                                 {"predicted_peak_bytes", ran.peaks.predicted_bytes},
                                 {"arena_bytes", ran.peaks.arena_bytes},
                                 {"process_peak_bytes", ran.peaks.process_bytes},
                                 {"least_run_s", ran.least_s}};
  for (size_t i = 0; i < ran.outputs.size(); ++i) {
    const Output& output = ran.outputs[i];
    nlohmann::ordered_json told = {
        {"name", output.name}, {"type", output.type.text()}, {"mean", output.mean}, {"largest", output.largest}};
    if (compared) {
      const Error error = error_of(output, compared->outputs[i]);
      told["relative_error"] = error.of_result;
      if (error.of_differences) told["relative_error_of_differences"] = *error.of_differences;
    }
    json["outputs"].push_back(std::move(told));
  }
  if (compared) {
    json["compared"] = {{"precision", options.compare},
                        {"predicted_peak_bytes", compared->peaks.predicted_bytes},
                        {"arena_bytes", compared->peaks.arena_bytes},
                        {"least_run_s", compared->least_s}};
  }
  return json;
}

void print_comparison(const RunOptions& options, const Ran& ran, const Ran& compared) {
  const auto line = [](std::string_view what, const std::string& found, const std::string& other) {
    print("  {:<10} {:>14}  {:>14}\n", what, found, other);
  };
  print("\n");
  line("", options.step.precision, options.compare);
  line("arena", format_bytes(ran.peaks.arena_bytes), format_bytes(compared.peaks.arena_bytes));
  line("fastest", format_seconds(ran.least_s), format_seconds(compared.least_s));
  for (size_t i = 0; i < ran.outputs.size(); ++i) {
    const Error error = error_of(ran.outputs[i], compared.outputs[i]);
    const std::string of_differences =
        error.of_differences
            ? fmt::format(", {:.3g} % of what differs from sample to sample", 100 * *error.of_differences)
            : "";
    print("  %{} is {:.3g} % off{}\n", ran.outputs[i].name, 100 * error.of_result, of_differences);
  }
}

void print_outputs(const RunOptions& options, const Ran& ran) {
  print("{}: {} runs on {} threads, {} the fastest\n", options.step.model, options.times, ran.threads,
        format_seconds(ran.least_s));
  for (const Output& output : ran.outputs) {
    print("  %{} {}: mean {:.6g}, at most {:.6g} in size\n", output.name, output.type.text(), output.mean,
          output.largest);
  }
}

// ---- within a budget ----

int refuse(const RunOptions& options, const train::ModelForms& model, const Budget& budget,
           const train::NoFit& no_fit) {
  const auto ways = train::alternatives_to(model, options.budget.spill_dir, budget, no_fit);
  if (!options.step.json) {
    tell("plimsoll: {}\n", train::refusal_text(model, budget, no_fit, ways));
    return kFinding;
  }
  nlohmann::ordered_json json = {{"model", options.step.model},
                                 {"sizes", model.sizes()},
                                 {"precision", options.step.precision},
                                 {"fits", false},
                                 {"budget_bytes", budget.bytes},
                                 {"budget_source", budget.source},
                                 {"smallest_budget_bytes", no_fit.smallest_budget_bytes()},
                                 {"overhead_bytes", no_fit.smallest_overhead_bytes()},
                                 {"smallest_arena_bytes", no_fit.smallest_arena_bytes()},
                                 {"binding_op", no_fit.refusal.binding_op}};
  json["alternatives"] = report::alternatives_json(ways);
  cli::print_json(json);
  return kFinding;
}

void print_within(const RunOptions& options, const Ran& ran, const Within& within) {
  if (options.step.json) {
    nlohmann::ordered_json json = json_of(options, ran, std::nullopt);
    json["budget_bytes"] = within.budget.bytes;
    json["budget_source"] = within.budget.source;
    json["unplanned_bytes"] = within.fit.plan.unplanned_bytes;
    json["overhead_bytes"] = within.fit.overhead_bytes;
    json["margin_bytes"] = within.fit.margin_bytes;
    return cli::print_json(json);
  }
  print_outputs(options, ran);
  print("{}", report::fit_text(within.fit, within.budget));
  print("{}", report::bytes_line("process", ran.peaks.process_bytes, "at most"));
}

int run_within(const RunOptions& options) {
  const Budget budget = read_budget(options.budget, options.step.device);
  const train::ModelForms model(request_of(options.step, {}));
  tell_notes(model.request().model, model.request().step);
  auto fitted = train::fit_model(model, options.budget.spill_dir, budget);
  if (const auto* no_fit = std::get_if<train::NoFit>(&fitted)) return refuse(options, model, budget, *no_fit);
  const Within within{budget, std::move(std::get<train::Fit>(fitted))};
  run::Session& session = *within.fit.session;
  model.start(session.executor(), options.seed);
  const double least_s = run_timed(options, session, within.fit.predicted_peak_bytes);
  Ran ran{model.sizes(), session.executor().threads(), {}, least_s, outputs_of(session.executor(), false)};
  ran.peaks = {within.fit.predicted_peak_bytes, within.fit.plan.arena_bytes, process_peak_bytes()};
  print_within(options, ran, within);
  return kDone;
}

void run(RunOptions options, int& status) {
  if (options.times < 1) throw ArgumentError(fmt::format("--times is {}, expected at least 1", options.times));
  options.step.mode = "infer";
  if (!options.compare.empty()) parse_dtype(options.compare);  // before the first run, not after it
  if (!options.budget.budget.empty()) {
    if (!options.compare.empty()) throw ArgumentError("--compare runs the model twice: give no --budget with it");
    status = run_within(options);
    return;
  }
  if (!options.budget.spill_dir.empty() || options.budget.strict) {
    throw ArgumentError("--spill-dir and --strict are for a run within a budget: give one with --budget");
  }
  const Ran ran = run_in(options, options.step.precision, !options.profile.empty());
  std::optional<Ran> compared;
  if (!options.compare.empty()) compared = run_in(options, options.compare, false);
  if (options.step.json) return print_json(json_of(options, ran, compared));
  print_outputs(options, ran);
  print("{}", report::peaks_text(ran.peaks));
  if (compared) print_comparison(options, ran, *compared);
}

}  // namespace

void add_run(const Command& app, int& status) {
  const Command verb = app.add_verb("run", "Run a model once or more on synthetic data");
  verb.footer(
      "Examples: plimsoll run resnet18 --batch 1 --times 5\n"
      "          plimsoll run resnet50 --batch 8 --budget 256MiB\n"
      "          plimsoll run resnet50 --batch 1 --precision i8 --compare f32");
  const auto options = std::make_shared<RunOptions>();
  add_model_options(verb, options->step);
  add_device_option(verb, options->step);
  verb.add_option("--precision", options->step.precision, "fp32 bf16 fp16 i8 (weights and products)").shows_default();
  verb.add_option("--budget", options->budget.budget, "Bytes that the whole process may take: 2GiB, auto");
  verb.add_option("--spill-dir", options->budget.spill_dir, "Folder on a disk for what does not fit in memory");
  verb.add_flag("--strict", options->budget.strict, "Refuse a budget above what the machine has");
  verb.add_option("--compare", options->compare, "Run in this precision, too, and show bytes, time and the difference");
  verb.add_option("--profile", options->profile,
                  "Write time and bytes by op, module and category, predicted and measured: a Chrome trace");
  verb.add_option("--times", options->times, "Runs").shows_default();
  verb.add_option("--seed", options->seed, "Of parameters and data").shows_default();
  verb.callback([options, &status] { run(*options, status); });
}

}  // namespace plimsoll::cli

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/file.h"
#include "plimsoll/report/profile.h"
#include "plimsoll/report/run_text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::cli {
namespace {

struct RunOptions {
  ModelOptions step;
  int64_t times = 3;
  uint64_t seed = 1;
  std::string compare;  // a precision to run in as well
  std::string profile;  // a file; empty: none
};

struct Output {
  std::string name;
  program::Type type;
  std::vector<float> data;

  double mean() const {
    double sum = 0;
    for (const float x : data) sum += static_cast<double>(x) / static_cast<double>(data.size());
    return sum;
  }
  double largest() const {  // in size
    double most = 0;
    for (const float x : data) most = std::max(most, std::abs(static_cast<double>(x)));
    return most;
  }
};

// What is left of a run when its memory has been given back.
struct Ran {
  program::Bindings sizes;
  int threads = 1;
  train::Peaks peaks = {};
  double least_s = 0;
  std::vector<Output> outputs;
};

std::vector<Output> outputs_of(run::Executor& executor) {
  std::vector<Output> outputs;
  for (const program::Value output : executor.program().outputs) {
    const program::ValueInfo& info = executor.program()[output];
    outputs.push_back({info.name, info.type, run::read_floats(executor, output)});
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

void write_profile(const RunOptions& options, const train::StartedSession& started, const std::vector<double>& seconds,
                   const report::OpTimes& ops) {
  report::Profile profile = report::profile_of(options.step.model, *started.session, ops);
  for (const double each : seconds) profile.steps.push_back({.seconds = each});
  profile.predicted_peak_bytes = started.predicted_peak_bytes;
  profile.measured_peak_bytes = started.session->executor().arena_bytes();
  write_file(options.profile, report::profile_file(profile));
  if (!options.step.json) print("{}\n", report::profile_text(profile));
}

Ran run_in(const RunOptions& options, const std::string& precision, bool profiled) {
  ModelOptions step = options.step;
  step.precision = precision;
  const train::StartedSession started = start_session(step, options.seed);
  run::Executor& executor = started.session->executor();
  train::fill_inputs(executor, options.seed);
  if (profiled) executor.time_ops();
  report::OpTimes ops;
  const std::vector<double> seconds = run_times(*started.session, options.times, ops);
  const double least_s = *std::min_element(seconds.begin(), seconds.end());
  if (profiled) write_profile(options, started, seconds, ops);
  return {started.sizes, started.threads, peaks_of(started), least_s, outputs_of(executor)};
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

void print_json(const RunOptions& options, const Ran& ran, const std::optional<Ran>& compared) {
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
        {"name", output.name}, {"type", output.type.text()}, {"mean", output.mean()}, {"largest", output.largest()}};
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
  cli::print_json(json);
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
    print("  %{} is {:.3g} % off", ran.outputs[i].name, 100 * error.of_result);
    if (error.of_differences) {
      print(", {:.3g} % of what differs from sample to sample", 100 * *error.of_differences);
    }
    print("\n");
  }
}

void print_text(const RunOptions& options, const Ran& ran, const std::optional<Ran>& compared) {
  print("{}: {} runs on {} threads, {} the fastest\n", options.step.model, options.times, ran.threads,
        format_seconds(ran.least_s));
  for (const Output& output : ran.outputs) {
    print("  %{} {}: mean {:.6g}, at most {:.6g} in size\n", output.name, output.type.text(), output.mean(),
          output.largest());
  }
  print("{}", report::peaks_text(ran.peaks));
  if (compared) print_comparison(options, ran, *compared);
}

void run(RunOptions options) {
  if (options.times < 1) throw ArgumentError(fmt::format("--times is {}, expected at least 1", options.times));
  options.step.mode = "infer";
  if (!options.compare.empty()) parse_dtype(options.compare);  // before the first run, not after it
  const Ran ran = run_in(options, options.step.precision, !options.profile.empty());
  std::optional<Ran> compared;
  if (!options.compare.empty()) compared = run_in(options, options.compare, false);
  if (options.step.json) return print_json(options, ran, compared);
  print_text(options, ran, compared);
}

}  // namespace

void add_run(const Command& app, int& /*status*/) {
  const Command verb = app.add_verb("run", "Run a model once or more on synthetic data");
  verb.footer(
      "Examples: plimsoll run resnet18 --batch 1 --times 5\n"
      "          plimsoll run resnet50 --batch 1 --precision i8 --compare f32");
  const auto options = std::make_shared<RunOptions>();
  add_model_options(verb, options->step);
  add_device_option(verb, options->step);
  verb.add_option("--precision", options->step.precision, "fp32 bf16 fp16 i8 (weights and products)").shows_default();
  verb.add_option("--compare", options->compare, "Run in this precision, too, and show bytes, time and the difference");
  verb.add_option("--profile", options->profile,
                  "Write time and bytes by op, module and category, predicted and measured: a Chrome trace");
  verb.add_option("--times", options->times, "Runs").shows_default();
  verb.add_option("--seed", options->seed, "Of parameters and data").shows_default();
  verb.callback([options] { run(*options); });
}

}  // namespace plimsoll::cli

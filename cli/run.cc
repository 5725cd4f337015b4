#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/model_options.h"
#include "cli/session_start.h"
#include "cli/verbs.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::cli {
namespace {

struct RunOptions {
  ModelOptions step;
  int64_t times = 3;
  uint64_t seed = 1;
};

// What comes out, in a few numbers: enough to compare runs by.
struct Result {
  std::string name;
  std::string type;
  double mean = 0;
  double largest = 0;  // in size
};

std::vector<Result> results_of(run::Executor& executor) {
  std::vector<Result> results;
  for (const program::Value output : executor.program().outputs) {
    const program::ValueInfo& info = executor.program()[output];
    Result result{info.name, info.type.text()};
    const std::vector<float> data = run::read_floats(executor, output);
    for (const float x : data) {
      result.mean += static_cast<double>(x) / static_cast<double>(data.size());
      result.largest = std::max(result.largest, std::abs(static_cast<double>(x)));
    }
    results.push_back(result);
  }
  return results;
}

double least_seconds(run::Executor& executor, int64_t times) {
  double least = INFINITY;
  for (int64_t i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    executor.step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
    fmt::print(stderr, "run {:>{}}  {:.1f} ms\n", i + 1, std::to_string(times).size(), took.count() * 1e3);
  }
  return least;
}

void print_json(const RunOptions& options, const StartedSession& started, double seconds) {
  nlohmann::ordered_json json = {{"model", options.step.model},
                                 {"sizes", started.sizes},
                                 {"precision", options.step.precision},
                                 {"threads", started.threads},
                                 {"predicted_peak_bytes", started.predicted_peak_bytes},
                                 {"arena_bytes", started.session->executor().arena_bytes()},
                                 {"process_peak_bytes", process_peak_bytes()},
                                 {"least_run_s", seconds}};
  for (const Result& result : results_of(started.session->executor())) {
    json["outputs"].push_back(
        {{"name", result.name}, {"type", result.type}, {"mean", result.mean}, {"largest", result.largest}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print_text(const RunOptions& options, const StartedSession& started, double seconds) {
  fmt::print("{}: {} runs on {} threads, {:.1f} ms the fastest\n", options.step.model, options.times, started.threads,
             seconds * 1e3);
  for (const Result& result : results_of(started.session->executor())) {
    fmt::print("  %{} {}: mean {:.6g}, at most {:.6g} in size\n", result.name, result.type, result.mean,
               result.largest);
  }
  print_peaks(started);
}

void run(RunOptions options) {
  if (options.times < 1) throw ArgumentError(fmt::format("--times is {}, expected at least 1", options.times));
  options.step.mode = "infer";
  const StartedSession started = start_session(options.step, options.seed);
  train::fill_inputs(started.session->executor(), options.seed);
  const double seconds = least_seconds(started.session->executor(), options.times);
  if (options.step.json) return print_json(options, started, seconds);
  print_text(options, started, seconds);
}

}  // namespace

void add_run(const Command& app, int& /*status*/) {
  const Command verb = app.add_verb("run", "Run a model once or more on made-up data");
  verb.footer("Example: plimsoll run resnet18 --batch 1 --times 5");
  const auto options = std::make_shared<RunOptions>();
  add_model_options(verb, options->step);
  verb.add_option("--precision", options->step.precision, "f32 bf16 f16").shows_default();
  verb.add_option("--times", options->times, "Runs").shows_default();
  verb.add_option("--seed", options->seed, "Of parameters and data").shows_default();
  verb.callback([options] { run(*options); });
}

}  // namespace plimsoll::cli

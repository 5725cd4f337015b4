#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/model_options.h"
#include "cli/session_start.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/train/trainer.h"

namespace plimsoll::cli {
namespace {

struct TrainOptions {
  ModelOptions step;
  int64_t steps = 10;
  double rate = 1e-3;
  uint64_t seed = 1;
};

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

std::vector<StepRecord> run_steps(train::Trainer& trainer, int64_t steps) {
  std::vector<StepRecord> records;
  for (int64_t i = 0; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const float loss = trainer.step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    records.push_back({loss, took.count()});
    fmt::print(stderr, "step {:>{}}  loss {:.6f}  {:.1f} ms\n", i + 1, std::to_string(steps).size(), loss,
               took.count() * 1e3);
  }
  return records;
}

void print_json(const TrainOptions& options, const StartedSession& started, const std::vector<StepRecord>& records) {
  nlohmann::ordered_json json = {{"model", options.step.model},
                                 {"sizes", started.sizes},
                                 {"optimizer", options.step.optimizer},
                                 {"precision", options.step.precision},
                                 {"threads", started.threads},
                                 {"predicted_peak_bytes", started.predicted_peak_bytes},
                                 {"arena_bytes", started.session->executor().arena_bytes()},
                                 {"process_peak_bytes", process_peak_bytes()},
                                 {"median_step_s", median_seconds(records)}};
  for (const StepRecord& record : records) {
    json["steps"].push_back({{"loss", record.loss}, {"seconds", record.seconds}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print_text(const TrainOptions& options, const StartedSession& started, const std::vector<StepRecord>& records) {
  fmt::print("{}: {} steps on {} threads, {:.1f} ms a step (median)\n", options.step.model, records.size(),
             started.threads, median_seconds(records) * 1e3);
  fmt::print("  loss       {:.6f} at first, {:.6f} at last\n", records.front().loss, records.back().loss);
  print_peaks(started);
}

void run(const TrainOptions& options) {
  if (options.steps < 1) throw ArgumentError(fmt::format("--steps is {}, expected at least 1", options.steps));
  const StartedSession started = start_session(options.step, options.seed);
  train::Trainer trainer(started.session->executor(), {.rate = options.rate, .seed = options.seed});
  const std::vector<StepRecord> records = run_steps(trainer, options.steps);
  if (options.step.json) return print_json(options, started, records);
  print_text(options, started, records);
}

}  // namespace

void add_train(CLI::App& app, int& /*status*/) {
  CLI::App* verb = app.add_subcommand("train", "Train a model on made-up data, in the memory that was predicted");
  verb->footer("Example: plimsoll train mlp --steps 20 --batch 64");
  const auto options = std::make_shared<TrainOptions>();
  add_model_options(*verb, options->step);
  add_optimizer_option(*verb, options->step);
  verb->add_option("--precision", options->step.precision, "f32")->capture_default_str();
  verb->add_option("--steps", options->steps, "Steps to run")->capture_default_str();
  verb->add_option("--rate", options->rate, "Learning rate")->capture_default_str();
  verb->add_option("--seed", options->seed, "Of parameters, data and dropout")->capture_default_str();
  verb->callback([options] { run(*options); });
}

}  // namespace plimsoll::cli

// What `plimsoll train` prints and writes of its steps, planned or not.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/train_options.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/file.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/train/save_weights.h"

namespace plimsoll::cli {

void save_weights(const TrainOptions& options, run::Executor& executor) {
  if (!options.save.empty()) train::save_weights(find_plain_model(options.step), executor, options.save);
}

nlohmann::ordered_json head_json(const TrainOptions& options, const program::Bindings& sizes, int threads) {
  return {{"model", options.step.model},
          {"sizes", sizes},
          {"optimizer", options.step.optimizer},
          {"precision", options.step.precision},
          {"threads", threads}};
}

void print_train_json(nlohmann::ordered_json json, const TrainedSteps& steps, int64_t peak_bytes) {
  json["process_peak_bytes"] = peak_bytes;
  if (const auto peak = cgroup_peak_bytes()) json["cgroup_peak_bytes"] = *peak;
  json["median_step_s"] = report::median_seconds(steps);
  json["steps"] = nlohmann::ordered_json::array();
  for (const report::TrainedStep& step : steps) {
    json["steps"].push_back({{"loss", step.loss}, {"seconds", step.seconds}});
  }
  cli::print_json(json);
}

void print_head(const TrainOptions& options, int threads, const TrainedSteps& steps) {
  erase_progress();
  print("{}: {} steps on {} threads, {} a step (median)\n", options.step.model, steps.size(), threads,
        format_seconds(report::median_seconds(steps)));
  if (steps.empty()) return;
  print("  loss       {:.6f} at first, {:.6f} at last\n", steps.front().loss, steps.back().loss);
}

// Ops are timed only where someone looks at the times.
void time_ops(const TrainOptions& options, run::Session& session) {
  if (!options.page.wants_any() && options.profile.empty()) return;
  for (size_t i = 0; i < session.executors(); ++i) session.executor(i).time_ops();
}

void write_profile(const TrainOptions& options, const report::Profile& profile) {
  write_file(options.profile, report::profile_file(profile));
  if (!options.step.json) print("{}", report::profile_text(profile));
}

void write_train_files(const TrainOptions& options, report::StepPageInput input, report::TrainedRun run) {
  std::vector<double> seconds;
  for (const report::TrainedStep& step : run.steps) seconds.push_back(step.seconds);
  if (!options.page.chrome_trace.empty()) {
    write_file(options.page.chrome_trace, report::chrome_trace(run.history, input.title, {.seconds = seconds}));
  }
  write_page(options.page, [&] { return report::train_page(input, run); });
}

}  // namespace plimsoll::cli

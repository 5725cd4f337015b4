// What `plimsoll train` prints and writes of its steps, planned or not.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/train_options.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/train/save_weights.h"

namespace plimsoll::cli {

void save_weights(const TrainOptions& options, run::Executor& executor) {
  if (!options.save.empty()) train::save_weights(find_plain_model(options.step), executor, options.save);
}

double median_seconds(const std::vector<StepRecord>& records) {
  if (records.empty()) return 0;
  std::vector<double> seconds;
  for (const StepRecord& record : records) seconds.push_back(record.seconds);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// ", about 12.3 s a step, 2 min 03 s left": nothing before the first step is done.
std::string time_left(const std::vector<StepRecord>& records, int64_t left) {
  if (records.empty()) return {};
  constexpr size_t kLast = 101;
  const double each =
      median_seconds({records.end() - static_cast<std::ptrdiff_t>(std::min(kLast, records.size())), records.end()});
  return fmt::format(", about {} a step, {} left", format_seconds(each),
                     format_seconds(each * static_cast<double>(left)));
}

nlohmann::ordered_json head_json(const TrainOptions& options, const program::Bindings& sizes, int threads) {
  return {{"model", options.step.model},
          {"sizes", sizes},
          {"optimizer", options.step.optimizer},
          {"precision", options.step.precision},
          {"threads", threads}};
}

void print_train_json(nlohmann::ordered_json json, const std::vector<StepRecord>& records, int64_t peak_bytes) {
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
  if (records.empty()) return;
  print("  loss       {:.6f} at first, {:.6f} at last\n", records.front().loss, records.back().loss);
}

// Ops are timed only where someone looks at the times.
void time_ops(const TrainOptions& options, run::Session& session) {
  if (!options.page.wants_any()) return;
  for (size_t i = 0; i < session.executors(); ++i) session.executor(i).time_ops();
}

void write_train_files(const TrainOptions& options, report::StepPageInput input, report::TrainedRun run,
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

}  // namespace plimsoll::cli

#include "plimsoll/report/run_text.h"

#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/report/plan_text.h"
#include "plimsoll/report/plot.h"

namespace plimsoll::report {
namespace {

// What is alive at each op of the step's program that takes the most, with the overhead, against the budget.
std::string picture(const train::Fit& fit, const Budget& budget) {
  constexpr int kColumns = 60;
  constexpr int kRows = 6;
  std::vector<int64_t> heights = plan::live_bytes(fit.session->executor().memory().liveness);
  for (int64_t& bytes : heights) bytes += fit.overhead_bytes;
  std::string rule;
  for (int i = 0; i < kColumns; ++i) rule += "╌";
  std::string text = fmt::format("  {:>10} {} budget\n", format_bytes(budget.bytes), rule);
  for (const std::string& line : plot(heights, kColumns, kRows, budget.bytes)) {
    text += fmt::format("  {:>10} {}\n", "", line);
  }
  return text + fmt::format("  {:>10} {}\n", "",
                            fit.plan.in_micro_batches() ? "live bytes over the ops of one micro-batch"
                                                        : "live bytes over the ops of the step");
}

}  // namespace

std::string bytes_line(std::string_view what, int64_t bytes, std::string_view note) {
  return fmt::format("  {:<10} {:>12}  {:>19} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
}

std::string peaks_text(const train::Peaks& peaks) {
  return bytes_line("predicted", peaks.predicted_bytes, "by `plimsoll estimate`") +
         bytes_line("arena", peaks.arena_bytes, "that the step ran in") +
         bytes_line("process", peaks.process_bytes, "at most, with code, libraries and the plan");
}

std::string fit_text(const train::Fit& fit, const Budget& budget) {
  std::string text = bytes_line("unplanned", fit.plan.unplanned_bytes, "the whole batch at once") +
                     bytes_line("budget", budget.bytes, budget.source) +
                     bytes_line("arena", fit.plan.arena_bytes, batch_text(fit.plan)) +
                     bytes_line("overhead", fit.overhead_bytes, "code, libraries, kernels, stacks, the system's own") +
                     bytes_line("peak", fit.predicted_peak_bytes, "of the process, predicted");
  text += fmt::format("  {:<10} {:>12}  a step: {}\n", "predicted", predicted_text(fit.plan, fit.plan.predicted_s),
                      costs_text(fit.plan.costs()));
  if (const auto file = kernels::spill_file(); file && file->bytes() > 0) {
    text += bytes_line("spilled", file->bytes(), fmt::format("in {}", file->folder()));
  }
  for (const plan::Measure& measure : plan::by_op(fit.plan.measures())) {
    text += fmt::format("  {:<10} {:>12}  {}\n", "", "", measure_text(measure));
  }
  return text + picture(fit, budget);
}

}  // namespace plimsoll::report

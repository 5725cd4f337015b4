#include "plimsoll/report/trained_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plimsoll/base/duration.h"

namespace plimsoll::report {

double median_seconds(std::span<const TrainedStep> steps) {
  if (steps.empty()) return 0;
  std::vector<double> seconds;
  for (const TrainedStep& step : steps) seconds.push_back(step.seconds);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

std::string time_left(std::span<const TrainedStep> steps, int64_t left) {
  if (steps.empty()) return {};
  constexpr size_t kLast = 101;
  const double each = median_seconds(steps.last(std::min(kLast, steps.size())));
  return fmt::format(", about {} a step, {} left", format_seconds(each),
                     format_seconds(each * static_cast<double>(left)));
}

}  // namespace plimsoll::report

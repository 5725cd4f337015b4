#include "plimsoll/plan/largest_batch.h"

#include <algorithm>

namespace plimsoll::plan {
namespace {

std::optional<PlannedBatch> plan_batch(const StepOfBatch& step_of, const CostsOf& costs_of, PlanOptions options,
                                       int64_t batch) {
  if (options.deadline.has_passed()) return std::nullopt;
  const kernels::Lowered lowered = step_of(batch);
  const std::vector<double> seconds = costs_of(lowered);
  options.op_seconds = seconds;
  options.find_smallest = false;
  const auto made = make_plan(lowered, options);
  const Plan* plan = std::get_if<Plan>(&made);
  if (plan == nullptr) return std::nullopt;
  return PlannedBatch{batch, plan->arena_bytes, plan->predicted_s, static_cast<int64_t>(plan->steps.size())};
}

}  // namespace

std::optional<LargestBatch> find_largest_batch(const StepOfBatch& step_of, const CostsOf& costs_of,
                                               const PlanOptions& options, int64_t most) {
  return find_largest_batch([&](int64_t batch) { return plan_batch(step_of, costs_of, options, batch); }, most);
}

std::optional<LargestBatch> find_largest_batch(const PlanOfBatch& plan_of, int64_t most) {
  LargestBatch found;
  const auto fits = [&](int64_t batch) {
    std::optional<PlannedBatch> planned = plan_of(batch);
    if (planned) found.looked_at.push_back(std::move(*planned));
    return planned.has_value();
  };
  int64_t low = 0;  // fits
  int64_t high = 1;
  while (high <= most && fits(high)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, most + 1);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  if (low == 0) return std::nullopt;
  std::sort(found.looked_at.begin(), found.looked_at.end(),
            [](const PlannedBatch& a, const PlannedBatch& b) { return a.batch < b.batch; });
  found.largest = found.looked_at.back();
  found.fastest = *std::min_element(
      found.looked_at.begin(), found.looked_at.end(),
      [](const PlannedBatch& a, const PlannedBatch& b) { return a.seconds_per_sample() < b.seconds_per_sample(); });
  return found;
}

}  // namespace plimsoll::plan

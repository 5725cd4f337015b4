// The largest batch that fits a budget, found on paper: nothing is run, nothing fails.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "plimsoll/plan/plan.h"

namespace plimsoll::plan {

// The step of a batch of so many samples. May be asked for any size up to the limit.
using StepOfBatch = std::function<kernels::Lowered(int64_t batch)>;
// Seconds of each of its ops.
using CostsOf = std::function<std::vector<double>(const kernels::Lowered&)>;

struct PlannedBatch {
  int64_t batch = 0;
  int64_t arena_bytes = 0;
  double predicted_s = 0;
  int64_t steps = 0;      // of the plan
  std::string form = {};  // of the step, in words; empty: as it is written

  double seconds_per_sample() const { return predicted_s / static_cast<double>(batch); }
};

struct LargestBatch {
  PlannedBatch largest;
  PlannedBatch fastest;                 // for each sample, of those in `looked_at`
  std::vector<PlannedBatch> looked_at;  // that fit, by size
};

// How a batch of so many samples fits; nothing when it does not.
using PlanOfBatch = std::function<std::optional<PlannedBatch>(int64_t batch)>;

// Larger batches are taken to need more memory. Nothing when not even one sample fits.
std::optional<LargestBatch> find_largest_batch(const PlanOfBatch& plan_of, int64_t most);

// The same for a step as it is written.
std::optional<LargestBatch> find_largest_batch(const StepOfBatch& step_of, const CostsOf& costs_of,
                                               const PlanOptions& options, int64_t most);

}  // namespace plimsoll::plan

// Runs kernels and copies to learn what they cost.
#pragma once

#include <functional>
#include <span>

#include "plimsoll/base/budget.h"
#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/spill_options.h"

namespace plimsoll::plan {

struct MeasureOptions {
  Budget budget;            // ops that do not fit in it are left to estimates
  double time_limit_s = 3;  // those that are thought to take the most of a step come first
  std::function<void(size_t done, size_t all)> told = nullptr;  // in kinds of op
};

// Adds the time of every kind of op of the programs that the table does not have: each alone, on made-up numbers, in
// memory that holds one op at a time.
void measure_costs(std::span<const kernels::Lowered* const> programs, const MeasureOptions& options, CostTable& table);
void measure_costs(const kernels::Lowered& lowered, const MeasureOptions& options, CostTable& table);

// How fast the disk of a folder is with copies of plans, each way: as the table has it, or measured and entered there.
// SystemError as from a SpillFile.
SpillOptions measure_spill(const std::string& folder, CostTable& table);

}  // namespace plimsoll::plan

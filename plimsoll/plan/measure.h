// Runs kernels and copies to learn what they cost.
#pragma once

#include <functional>

#include "plimsoll/base/budget.h"
#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/spill_options.h"

namespace plimsoll::plan {

// Adds the time of every kind of op of the program that the table does not have: each alone, on zeros, in memory that
// holds one op at a time. Ops that do not fit in the budget are left to the roofline. `told` is called with how many
// of how many kinds are done.
void measure_costs(const kernels::Lowered& lowered, const Budget& budget, CostTable& table,
                   const std::function<void(size_t done, size_t all)>& told = nullptr);

// How fast the disk of a folder is with copies of plans, each way: as the table has it, or measured and entered there.
// SystemError as from a SpillFile.
SpillOptions measure_spill(const std::string& folder, CostTable& table);

}  // namespace plimsoll::plan

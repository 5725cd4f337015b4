// Runs kernels and copies to learn what they cost.
#pragma once

#include <functional>
#include <span>

#include "plimsoll/base/budget.h"
#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/spill_options.h"
#include "plimsoll/train/timer.h"

namespace plimsoll::train {

struct MeasureOptions {
  Budget budget;            // ops that do not fit in it are left to estimates
  double time_limit_s = 3;  // those that are thought to take the most of a step come first
  std::function<void(size_t done, size_t all)> on_progress = nullptr;  // in kinds of op
  Timer timer = time_on_machine;
};

// Adds the time of every kind of op of the programs that the table does not have, or has had for long: each alone, on
// synthetic data, in memory that holds one op at a time. The median of several runs counts, before each of which the
// caches are as a step leaves them: without weights, with what the op before has made (as far as the budget has room
// for that). A time that was taken while others used the processor is corrected by how long it waited for them, and
// marked as not quiet; on several threads, one that was held up for most of its time is not taken. Calibrates devices
// that are not yet. Then some of what was measured in few runs is measured again, to see whether it can be faster.
// Whether the table now says something else. The programs are of one device.
bool measure_costs(std::span<const kernels::Lowered* const> programs, const MeasureOptions& options,
                   plan::CostTable& table);
bool measure_costs(const kernels::Lowered& lowered, const MeasureOptions& options, plan::CostTable& table);

// Enters what a device can do on so many threads, by a product of matrices, a convolution and a copy, unless the table
// has it: about a tenth of a second on a quiet machine, in a few MiB within the budget. Whether it was entered.
bool calibrate(const std::string& device, int threads, const MeasureOptions& options, plan::CostTable& table);

// How fast the disk of a folder is with copies of plans, each way: as the table has it, or measured and entered there.
// SystemError as from a SpillFile.
plan::SpillOptions measure_spill(const std::string& folder, plan::CostTable& table);

}  // namespace plimsoll::train

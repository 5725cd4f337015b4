// Which sharding a step over several ranks takes where that is left to us: the fastest that fits, together with what
// plans do to make it fit.
#pragma once

#include <vector>

#include "plimsoll/plan/plan.h"
#include "plimsoll/train/model_forms.h"
#include "plimsoll/train/rank_estimate.h"

namespace plimsoll::train {

// The word for it on the command line.
inline constexpr std::string_view kAutoSharding = "auto";

// Those that can be taken, each of which takes less memory than the one before. What evaluates or saves on one rank
// alone needs whole parameters there.
std::vector<program::Sharding> possible_shardings(bool whole_parameters);

// By plans for the arena that each rank has; `of_rank` is what one of them runs. Where none fits, the one that comes
// closest. Shardings that the optimizer cannot have are passed over.
program::Sharding choose_sharding(const StepRequest& of_rank, const plan::PlanOptions& options,
                                  const std::vector<program::Sharding>& shardings);

// The same by estimates, of the whole batch at once and nothing computed again: `whole` is of all ranks.
program::Sharding estimate_sharding(const StepRequest& whole, int ranks, const Link& link, int64_t budget_bytes);

}  // namespace plimsoll::train

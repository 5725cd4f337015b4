// Optimizer state and parameters that are spread over ranks, as tensors of a checkpoint: whole, under the names and
// shapes that it has on one rank, so that a run goes on from it on any number of ranks.
#pragma once

#include <vector>

#include "plimsoll/train/kept_tensors.h"
#include "plimsoll/train/rank_part.h"

namespace plimsoll::train {

// Those of `tensors` that are shards, of parameters or state, get the names and shapes of the whole; reading and
// loading one are of the rank's own shard of it. `program` is the one that keeps them. Without sharding there are none.
std::vector<KeptTensor> whole_state(std::vector<KeptTensor> tensors, const program::Program& program,
                                    program::Sharding sharding, const RankPart& part);

}  // namespace plimsoll::train

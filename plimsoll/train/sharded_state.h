// Optimizer state and parameters that are spread over ranks, as tensors of a checkpoint: whole, under the names and
// shapes that it has on one rank, so that a run goes on from it on any number of ranks.
#pragma once

#include <vector>

#include "plimsoll/train/kept_tensors.h"
#include "plimsoll/train/rank_part.h"

namespace plimsoll::train {

// Those of `tensors` that are shards become the whole: reading one, on rank 0 alone, fetches what other ranks
// have while these are in serve_state; loading one reads the rank's own shard. `program` is the one that keeps them.
std::vector<KeptTensor> whole_state(std::vector<KeptTensor> tensors, const program::Program& program,
                                    const RankPart& part);

// On all ranks but 0, with the same tensors: answers until rank 0 calls end_serving.
void serve_state(const std::vector<KeptTensor>& tensors, const RankPart& part);
void end_serving(const RankPart& part);

}  // namespace plimsoll::train

// One of several ranks that train one model together, each on its samples of every batch (docs/ranks.md).
#pragma once

#include <cstdint>
#include <memory>

#include "plimsoll/device/communicator.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::train {

struct RankPart {
  std::shared_ptr<device::Communicator> ranks = {};  // nothing: this run is alone
  int64_t batch = 0;                                 // samples of all ranks
  int64_t first_sample = 0;                          // of them, that this rank takes
  int64_t samples = 0;

  explicit operator bool() const { return ranks != nullptr; }
  bool is_first() const { return !ranks || ranks->rank() == 0; }
};

// Nothing for one rank alone. ArgumentError where there is not a sample for each rank.
RankPart part_of_rank(std::shared_ptr<device::Communicator> ranks, int64_t batch);

// What this rank runs of a step of the whole batch.
StepRequest request_of_part(StepRequest request, const RankPart& part, program::Sharding sharding);

// How the ranks of a run agree on one plan: rank 0 plans for the arena that the tightest of them has, and the others
// read its plan, which must be of the same program as theirs. Where batches are not divided evenly, rank 0 plans for
// both sizes. `model` is of this rank's part, and outlives it; so do all that its forms refer to.
Peers peers_of(const ModelForms& model, const RankPart& part);

// RankError on all ranks where the programs of one would wait for others than those of rank 0.
void require_same_collectives(const RankPart& part, run::Session& session);

}  // namespace plimsoll::train

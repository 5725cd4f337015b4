// Which ops of a step to chunk (program/batch_chunks.h) when one alone needs more than a budget leaves.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plimsoll/program/batch_chunks.h"

namespace plimsoll::plan {

struct ChunkChoice {
  const program::ChunkPlaces& places;
  int64_t batch = 1;
  // What no plan can be below: of the step as it is, and in a form.
  int64_t whole_bytes = 0;
  std::function<int64_t(const program::StepForm&)> least_bytes;
};

// As few ops as bring what is needed to `roomy_bytes` or as far towards it as they can, in as few chunks. Nothing when
// no chunks lower it.
std::optional<program::StepForm> choose_chunks(const ChunkChoice& choice, int64_t roomy_bytes);

// "the first 10 ops of the model in 8 chunks"; the form has chunks.
std::string chunks_text(const program::StepForm& form);

}  // namespace plimsoll::plan

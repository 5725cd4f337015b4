// A model whose first or last ops take the batch in chunks, one after the other, while the others take it whole. Early
// layers hold the largest images and few weights, the last the most classes: where one such op alone needs more memory
// than there is, recomputing cannot help, and parts of the whole batch would keep a sum of every gradient. Chunked ops
// need memory for a chunk at a time, and only their own gradients are summed.
//
// The step is that of the whole batch, to rounding.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// A form that the step of a whole batch may take; as it stands: the step as it is written.
struct StepForm {
  int64_t chunks = 1;     // of equal size; 1: nothing is chunked
  int32_t first = 0;      // so many of the model's first ops
  int32_t last = 0;       // so many of its last; the last of all makes the loss
  bool sink_ops = false;  // every op no sooner than its results are wanted: passes/sink_ops.h
  bool waits = false;     // for each sum over ranks at once, so that none is in memory while others are made

  bool operator==(const StepForm&) const = default;
};

// What may stand in a form: counts of ops, ascending, not more than all together. At each place a single result goes
// across that is smaller than what is made on the chunked side, and no op there mixes samples or draws random numbers.
// All sizes of the model are bound but `batch`.
struct ChunkPlaces {
  int32_t ops = 0;  // of the model
  std::vector<int32_t> first = {};
  std::vector<int32_t> last = {};

  bool empty() const { return first.empty() && last.empty(); }
};
ChunkPlaces find_chunk_places(const Program& model, Value loss);

struct ChunkedModel {
  Program program;  // inputs, parameters and state as the model's; the loss is its output
  Value loss;
};

// The model with its batch bound and chunked. ArgumentError for places that are not in find_chunk_places, or chunks
// that do not divide the batch.
ChunkedModel chunk_batch(const Program& model, Value loss, const StepForm& form, int64_t batch);

}  // namespace plimsoll::program

// From a name in the zoo to the whole step that a run would take: forward alone, or with backward and update, bound to
// sizes.
#pragma once

#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/program/batch_chunks.h"
#include "plimsoll/program/passes/quantize.h"
#include "plimsoll/program/split_step.h"

namespace plimsoll::models {

struct StepOptions {
  bool training = true;
  DType precision = DType::f32;      // i8: of weights, in inference (program/passes/quantize.h)
  program::TrainOptions train = {};  // no meaning in inference
  program::Bindings sizes = {};      // in place of the usual ones
  Size size = Size::full;
  bool through_batch_norm = false;  // of a step in micro-batches
  program::StepForm form = {};      // of a training step that is not in micro-batches
};

// A step, and how what it keeps starts.
struct Step {
  program::Program program;
  std::vector<Init> inits;        // for each of program.parameters
  std::vector<Init> state_inits;  // for the first of program.state; the optimizer's, which follow, start at 0
  std::vector<program::QuantizedParameter> quantized = {};  // parameters of i8; their inits are those in f32
};

// Inference is optimised (program/passes/optimize.h), but in i8.
// ArgumentError from `bindings`, for a precision that a step does not have, and from chunk_batch.
Step build_whole_step(const ModelInfo& model, const StepOptions& options = {});
// Where such a step could be chunked.
program::ChunkPlaces find_chunk_places(const ModelInfo& model, const StepOptions& options);

// A training step in micro-batches, its batch not bound, and how what it keeps starts.
struct MicroBatchStep {
  program::SplitStep split;
  std::vector<Init> inits;  // as in Step
  std::vector<Init> state_inits;
};

// ArgumentError as above; UnsupportedError that says why when the model's batch cannot be taken in micro-batches.
MicroBatchStep build_micro_batch_step(const ModelInfo& model, const StepOptions& options);

program::Program build_step(const ModelInfo& model, const StepOptions& options = {});

// Arithmetic operations of the forward pass for one sample of the usual sizes.
int64_t forward_flops(const ModelInfo& model);

}  // namespace plimsoll::models

// A training step whose batch is taken in micro-batches, one after the other, so that only one micro-batch is in
// memory: micro-batches. Two programs take turns over the same parameters and state:
//
//   micro-batch     forward and backward of some samples; adds their share of the gradients to sums that stay
//   update   updates the parameters from the sums, and clears them
//
// The step is that of the whole batch, to rounding. Where the loss is a mean, each micro-batch's own mean counts by its
// share of what the whole batch's is over: the micro-batch's input `micro_batch.weight`. Dropout draws for each sample
// what it would in the whole batch, from the place of the micro-batch in it: the second number of the seed. Where the
// loss is scaled (f16), all micro-batches of a step are by the same power; the update looks at the sums, and is skipped
// where these are not finite.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/program/train_step.h"

namespace plimsoll::program {

// What the loss is a mean of: the elements of `counted`, an input, without those that are `ignored`.
struct LossMean {
  Value counted;
  std::optional<int64_t> ignored = {};
  bool is_sum = false;  // the loss is a sum: every micro-batch has the weight 1
};

struct SplitStep {
  // Both have the same parameters and the same state in the same order: the model's, the scale of the loss where there
  // is one, the sums `gradient.w` of its gradients, and the optimizer's.
  Program micro_batch;  // inputs: the model's and `micro_batch.weight`, of the loss's type; output 0 is the loss of the
                        // micro-batch alone
  Program update;       // input `optimizer.rate`; no output
  LossMean mean;        // of the micro-batch
  std::vector<Value> samples;  // inputs of the micro-batch whose dimension 0 is the batch
};

struct SplitOptions {
  TrainOptions train = {};
  bool through_batch_norm = false;  // changes the numbers: statistics are then those of each micro-batch
};

// Whether the symbol `batch` stands in the shape, and whether only dimension 0 counts samples.
bool depends_on_batch(const Type& type);
bool is_batch_first(const Type& type);

// A reason in one sentence why this op, or this loss, cannot take a micro-batch; nothing when it can.
std::optional<std::string> why_op_mixes_samples(const Program& program, const Op& op, bool through_batch_norm = false);
std::optional<std::string> why_loss_is_no_mean(const Program& program, Value loss);

// A reason in one sentence why this model's batch cannot be taken in micro-batches: an op that mixes samples, a loss
// that is not a mean over them. Nothing when it can. The batch is the symbol `batch`, and dimension 0 wherever it
// stands.
std::optional<std::string> why_no_micro_batches(const Program& model, Value loss, bool through_batch_norm = false);

// What the loss of a model is a mean of. The op that makes it must be a loss.
LossMean mean_of_loss(const Program& model, Value loss);

// UnsupportedError with that reason; ArgumentError as from training_step.
SplitStep split_training_step(Program model, Value loss, const SplitOptions& options = {});

}  // namespace plimsoll::program

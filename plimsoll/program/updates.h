// The update phase of a training step, shared by the forms that a step can take (train_step.h, split_step.h).
#pragma once

#include <span>

#include "plimsoll/program/builder.h"
#include "plimsoll/program/train_step.h"

namespace plimsoll::program {

// A parameter and its gradient.
struct Trained {
  Value parameter;
  Value gradient;
  int32_t made = -1;   // place of the op that completes the gradient
  int32_t after = -1;  // of the op after which nothing stands in the way of the update
  bool is_own = true;  // nothing else reads or shares the gradient's storage once it is made
};

// Appends the gradients of all floating parameters, the first to be updated first. `seed` is what the loss is
// multiplied with; nothing: 1. ArgumentError when the loss depends on no parameter.
std::vector<Trained> find_trained(Builder& b, Value loss, Value seed = {});

// Whether its state can be held in 8 bits (ops/state_8bit.h).
bool has_8bit_state(Optimizer optimizer);

// What the loss is multiplied with; nothing: it is not.
struct LossScale {
  Value state;
  Value value;
};
LossScale scale_of_loss(Builder& b);

// Appends the updates with what they need before them. Gradients are this rank's own, or shards of the sum over all
// ranks where they are so `reduced`. Returns for each op that was appended the place of the op that it may follow
// (place_after).
std::vector<int32_t> append_updates(Builder& b, std::span<const Trained> trained, const TrainOptions& options,
                                    const LossScale& loss_scale = {}, bool reduced = false);

// The places of ops that are appended to a program: after which op of those before each goes.
class AppendedPlaces {
 public:
  explicit AppendedPlaces(const Builder& b) : b_(b), first_(b.program().ops.size()) {}

  // Of all since the last call.
  void put_after(int32_t op) { after_.resize(b_.program().ops.size() - first_, op); }
  int32_t last_before() const { return static_cast<int32_t>(first_) - 1; }
  const std::vector<int32_t>& places() const { return after_; }

 private:
  const Builder& b_;
  size_t first_;
  std::vector<int32_t> after_ = {};
};

// Seeds become pairs: the seed, and the samples that come before those of the program.
void pair_seeds(Program& model);

// Moves each op from `first` on to behind the op at after[i], in their order; after[i] < first.
void place_after(Program& program, size_t first, std::span<const int32_t> after);

}  // namespace plimsoll::program

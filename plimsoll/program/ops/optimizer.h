// Optimizer updates: ops that overwrite parameters and optimizer state with their new content. The learning rate is a
// value of one element, so that schedules do not change the program. So is `scale`, which multiplies every gradient as
// it is read: clipping makes no copy of them. Where `scale` is not a number the update is skipped, and everything stays
// as it was.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

struct SgdOptions {
  double weight_decay = 0;  // this share of w is added to its gradient
  Value scale = {};         // of dw; nothing: 1
};

// w - rate * dw, in the storage of w.
Value sgd(Builder& b, Value w, Value dw, Value rate, SgdOptions options = {});

struct MomentumOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  Value scale = {};
};

// The velocity becomes momentum * velocity + dw, in its storage; w goes rate times it (with Nesterov: rate times
// dw + momentum * velocity), in its own.
Value momentum(Builder& b, Value w, Value dw, Value velocity, Value rate, MomentumOptions options = {});

// The running means of the gradient and of its square, as they came; both of w's shape.
struct Moments {
  Value mean;
  Value square;
};

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  Value scale = {};
};

// Adam, with the means corrected by `step`, an integer that is 1 in the first step: see next_step. Overwrites w and the
// moments. Weight decay is added to the gradient (adam) or taken off w directly (adamw).
Value adam(Builder& b, Value w, Value dw, Moments moments, Value step, Value rate, AdamOptions options = {});
Value adamw(Builder& b, Value w, Value dw, Moments moments, Value step, Value rate, AdamOptions options = {});

struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // taken off w directly
  Value scale = {};
};

// w goes rate in the direction of the sign of beta1 * mean + (1 - beta1) * dw; the mean becomes
// beta2 * mean + (1 - beta2) * dw. Overwrites both.
Value lion(Builder& b, Value w, Value dw, Value mean, Value rate, LionOptions options = {});

// One more, in the storage of `step`: a counter that lasts from step to step.
Value next_step(Builder& b, Value step);

// The root of the sum of all squares of all gradients: f32, or f64 where one of them is.
Value global_norm(Builder& b, std::span<const Value> gradients);

// Gradients of f16 are too small for it unless the loss is multiplied, here by a power of two that adapts: it halves
// whenever a gradient was infinite or not a number, and doubles after kLossScaleSteps steps without.
// `state` is i64[2]: the power less kFirstLossScale, and the steps since it changed; so zero at first.
inline constexpr int64_t kFirstLossScale = 16;
inline constexpr int64_t kLossScaleSteps = 2000;

Value loss_scale(Builder& b, Value state);  // f32[]
// By the norm of the gradients that were made with it; in the storage of `state`.
Value next_loss_scale(Builder& b, Value state, Value norm);
// What to multiply gradients with whose loss was multiplied: not a number where their norm is not finite.
Value unscale(Builder& b, Value scale, Value norm);

// What to multiply gradients of this norm with so that it is at most `max_norm`: 1 where it is.
Value clip_scale(Builder& b, Value norm, double max_norm);

}  // namespace plimsoll::program

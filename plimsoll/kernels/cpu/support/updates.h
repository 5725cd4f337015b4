// The arithmetic of optimizer updates on lines of f32, for kernels that hold the state in different ways. State below
// the smallest normal number becomes zero: it changes no weight, and where gradients have died away all of it would be
// such.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// What every update reads when it runs.
struct UpdateScalars {
  const float* rate;
  const float* scale;  // of the gradient; null: 1

  bool skip() const;  // the scale is not a number
  float scale_or_one() const { return scale == nullptr ? 1 : *scale; }
};

struct Momentum {
  float decay, keep;
  bool nesterov;
  float rate = 0;
  float scale = 1;

  Momentum now(const UpdateScalars& scalars) const;
};
Momentum momentum_of(const KernelCall& call);

void apply(const Momentum& update, float* w, float* velocity, const float* dw, int64_t count);

struct Adam {
  double beta1, beta2;
  float eps, decay;
  bool decoupled;  // decay is taken off w, not added to the gradient
  float rate = 0;
  float scale = 1;
  float mean_share = 1;  // how much of the true mean is there so far
  float square_share = 1;

  Adam now(const UpdateScalars& scalars, int64_t step) const;
};
Adam adam_of(const KernelCall& call, bool decoupled);

void apply(const Adam& update, float* w, float* mean, float* square, const float* dw, int64_t count);

}  // namespace plimsoll::kernels

#include "plimsoll/kernels/cpu/support/updates.h"

#include <cmath>

#include "plimsoll/kernels/cpu/support/denormals.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels {
namespace {

float real(const KernelCall& call, const char* attribute) { return static_cast<float>(call.op.real(attribute)); }

void update(const Momentum& s, float* w, float* velocity, const float* dw, int64_t count) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float gradient = s.scale * dw[i] + s.decay * w[i];
      velocity[i] = s.keep * velocity[i] + gradient;
      w[i] -= s.rate * (s.nesterov ? gradient + s.keep * velocity[i] : velocity[i]);
    }
  });
}

void update(const Adam& s, float* w, float* mean, float* square, const float* dw, int64_t count) {
  vectorised([=] {
    const auto b1 = static_cast<float>(s.beta1);
    const auto b2 = static_cast<float>(s.beta2);
    const auto c1 = static_cast<float>(1 - s.beta1);
    const auto c2 = static_cast<float>(1 - s.beta2);
    const float coupled = s.decoupled ? 0 : s.decay;
    const float kept = s.decoupled ? 1 - s.rate * s.decay : 1;
    const float step = s.rate / s.mean_share;
    const float root_share = 1 / std::sqrt(s.square_share);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float gradient = s.scale * dw[i] + coupled * w[i];
      mean[i] = b1 * mean[i] + c1 * gradient;
      square[i] = b2 * square[i] + c2 * gradient * gradient;
      w[i] = kept * w[i] - step * mean[i] / (std::sqrt(square[i]) * root_share + s.eps);
    }
  });
}

}  // namespace

bool UpdateScalars::skip() const { return scale != nullptr && std::isnan(*scale); }

Momentum momentum_of(const KernelCall& call) {
  return {real(call, "weight_decay"), real(call, "momentum"), call.op.flag("nesterov")};
}

Momentum Momentum::now(const UpdateScalars& scalars) const {
  Momentum update = *this;
  update.rate = *scalars.rate;
  update.scale = scalars.scale_or_one();
  return update;
}

void apply(const Momentum& s, float* w, float* velocity, const float* dw, int64_t count) {
  const FlushDenormals flush;
  update(s, w, velocity, dw, count);
}

Adam adam_of(const KernelCall& call, bool decoupled) {
  return {call.op.real("beta1"), call.op.real("beta2"), real(call, "eps"), real(call, "weight_decay"), decoupled};
}

Adam Adam::now(const UpdateScalars& scalars, int64_t step) const {
  Adam update = *this;
  update.rate = *scalars.rate;
  update.scale = scalars.scale_or_one();
  update.mean_share = static_cast<float>(1 - std::pow(beta1, static_cast<double>(step)));
  update.square_share = static_cast<float>(1 - std::pow(beta2, static_cast<double>(step)));
  return update;
}

void apply(const Adam& s, float* w, float* mean, float* square, const float* dw, int64_t count) {
  const FlushDenormals flush;
  update(s, w, mean, square, dw, count);
}

}  // namespace plimsoll::kernels

// Updates of parameters, each in one pass over everything it touches.
#include "plimsoll/program/ops/optimizer.h"

#include <cmath>
#include <limits>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cut.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {
namespace {

float real(const Use& use, const char* attribute) { return static_cast<float>(use.call.real(attribute)); }

void require_all_f32(const Use& use) {
  for (int i = 0; i < use.arity(); ++i) {
    if (is_floating(use.in(i).dtype)) use.require_f32(i);
  }
}

// The number that a scalar operand holds when the step runs; 1 where it is left out.
float scalar_or_one(const float* scalar) { return scalar == nullptr ? 1 : *scalar; }
bool skips(const float* scale) { return scale != nullptr && std::isnan(*scale); }

struct Sgd {
  float rate, scale, decay;
};

PLIMSOLL_VECTORISED void apply(const Sgd& s, float* w, const float* dw, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) w[i] -= s.rate * (s.scale * dw[i] + s.decay * w[i]);
}

Kernel sgd(const Use& use) {
  require_all_f32(use);
  const float decay = real(use, "weight_decay");
  return plain([count = use.out().elements(), threads = use.threads, decay](const Memory& m) -> Task {
    return [=, w = m.out<float>(), dw = m.in<float>(1), rate = m.in<float>(2), scale = m.in<float>(3)] {
      if (skips(scale)) return;
      const Sgd update{*rate, scalar_or_one(scale), decay};
      parallel(threads, count, kGrain, [&](int, int64_t i, int64_t end) { apply(update, w + i, dw + i, end - i); });
    };
  });
}

struct Momentum {
  float rate, scale, decay, keep;
  bool nesterov;
};

PLIMSOLL_VECTORISED void apply(const Momentum& s, float* w, float* velocity, const float* dw, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = s.scale * dw[i] + s.decay * w[i];
    velocity[i] = s.keep * velocity[i] + gradient;
    w[i] -= s.rate * (s.nesterov ? gradient + s.keep * velocity[i] : velocity[i]);
  }
}

Kernel momentum(const Use& use) {
  require_all_f32(use);
  Momentum update{0, 1, real(use, "weight_decay"), real(use, "momentum"), use.call.flag("nesterov")};
  return plain([=, count = use.out().elements(), threads = use.threads](const Memory& m) -> Task {
    return [=, w = m.out<float>(), velocity = m.out<float>(1), dw = m.in<float>(1), rate = m.in<float>(3),
            scale = m.in<float>(4)] {
      if (skips(scale)) return;
      Momentum now = update;
      now.rate = *rate;
      now.scale = scalar_or_one(scale);
      parallel(threads, count, kGrain,
               [&](int, int64_t i, int64_t end) { apply(now, w + i, velocity + i, dw + i, end - i); });
    };
  });
}

struct Adam {
  double beta1, beta2;
  float eps, decay;
  bool decoupled;
  float rate = 0;
  float scale = 1;
  float mean_share = 1;  // how much of the true mean is there so far
  float square_share = 1;
};

PLIMSOLL_VECTORISED void apply(const Adam& s, float* w, float* mean, float* square, const float* dw, int64_t count) {
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
}

Kernel adam(const Use& use, bool decoupled) {
  require_all_f32(use);
  const Adam update{use.call.real("beta1"), use.call.real("beta2"), real(use, "eps"), real(use, "weight_decay"),
                    decoupled};
  if (use.in(4).dtype != DType::i64) use.unsupported("the step counter must be i64");
  return plain([=, count = use.out().elements(), threads = use.threads](const Memory& m) -> Task {
    return [=, w = m.out<float>(), mean = m.out<float>(1), square = m.out<float>(2), dw = m.in<float>(1),
            step = m.in<int64_t>(4), rate = m.in<float>(5), scale = m.in<float>(6)] {
      if (skips(scale)) return;
      Adam now = update;
      now.rate = *rate;
      now.scale = scalar_or_one(scale);
      now.mean_share = static_cast<float>(1 - std::pow(update.beta1, static_cast<double>(*step)));
      now.square_share = static_cast<float>(1 - std::pow(update.beta2, static_cast<double>(*step)));
      parallel(threads, count, kGrain,
               [&](int, int64_t i, int64_t end) { apply(now, w + i, mean + i, square + i, dw + i, end - i); });
    };
  });
}

Kernel next_step(const Use& use) {
  if (use.in(0).dtype != DType::i64) use.unsupported("the step counter must be i64");
  return plain([](const Memory& m) -> Task { return [step = m.out<int64_t>()] { ++*step; }; });
}

double square_sum(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

Kernel global_norm(const Use& use) {
  require_all_f32(use);
  std::vector<int64_t> counts;
  for (const Tensor& gradient : use.inputs) counts.push_back(gradient.elements());
  return plain([counts](const Memory& m) -> Task {
    return [=, gradients = m.inputs, norm = m.out<float>()] {
      double sum = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        sum += square_sum(reinterpret_cast<const float*>(gradients[i]), counts[i]);
      }
      *norm = static_cast<float>(std::sqrt(sum));
    };
  });
}

Kernel clip_scale(const Use& use) {
  require_all_f32(use);
  return plain([most = real(use, "max_norm")](const Memory& m) -> Task {
    return [=, norm = m.in<float>(0), scale = m.out<float>()] {
      constexpr float kEpsilon = 1e-6F;  // as PyTorch has it: a norm of zero divides
      *scale = std::min(1.0F, most / (*norm + kEpsilon));
    };
  });
}

Kernel loss_scale(const Use& /*use*/) {
  return plain([](const Memory& m) -> Task {
    return [state = m.in<int64_t>(0), scale = m.out<float>()] {
      *scale = std::ldexp(1.0F, static_cast<int>(program::kFirstLossScale + *state));
    };
  });
}

Kernel next_loss_scale(const Use& use) {
  use.require_f32(1);
  return plain([](const Memory& m) -> Task {
    return [norm = m.in<float>(1), state = m.out<int64_t>()] {
      const bool finite = std::isfinite(*norm);
      const bool doubles = finite && state[1] + 1 == program::kLossScaleSteps;
      state[0] += finite ? (doubles ? 1 : 0) : -1;
      state[1] = finite && !doubles ? state[1] + 1 : 0;
    };
  });
}

Kernel unscale(const Use& use) {
  require_all_f32(use);
  return plain([](const Memory& m) -> Task {
    return [scale = m.in<float>(0), norm = m.in<float>(1), factor = m.out<float>()] {
      *factor = std::isfinite(*norm) ? 1 / *scale : std::numeric_limits<float>::quiet_NaN();
    };
  });
}

}  // namespace

void register_optimizer_cpu(KernelTable& table) {
  table.add("sgd", {sgd, contiguous_only, {}, by_elements});
  table.add("momentum", {momentum, contiguous_only, {}, by_elements});
  table.add("adam", {[](const Use& use) { return adam(use, false); }, contiguous_only, {}, by_elements});
  table.add("adamw", {[](const Use& use) { return adam(use, true); }, contiguous_only, {}, by_elements});
  table.add("next_step", {next_step});
  table.add("global_norm", {global_norm});
  table.add("clip_scale", {clip_scale});
  table.add("loss_scale", {loss_scale});
  table.add("next_loss_scale", {next_loss_scale});
  table.add("unscale", {unscale});
}

}  // namespace plimsoll::kernels

// Updates of parameters, each in one pass over everything it touches.
#include "plimsoll/program/ops/optimizer.h"

#include <cmath>
#include <limits>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/updates.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

float real(const KernelCall& call, const char* attribute) { return static_cast<float>(call.op.real(attribute)); }

void require_all_f32(const KernelCall& call) {
  for (int i = 0; i < call.arity(); ++i) {
    if (is_floating(call.in(i).dtype)) call.require_f32(i);
  }
}

struct Sgd {
  float rate, scale, decay;
};

void apply(const Sgd& s, float* w, const float* dw, int64_t count) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) w[i] -= s.rate * (s.scale * dw[i] + s.decay * w[i]);
  });
}

Kernel sgd(const KernelCall& call) {
  require_all_f32(call);
  const float decay = real(call, "weight_decay");
  return plain([count = call.out().elements(), threads = call.threads, decay](const Memory& m) -> Task {
    return [=, w = m.out<float>(), dw = m.in<float>(1), scalars = UpdateScalars{m.in<float>(2), m.in<float>(3)}] {
      if (scalars.skip()) return;
      const Sgd update{*scalars.rate, scalars.scale_or_one(), decay};
      parallel(threads, count, kGrain, [&](int, int64_t i, int64_t end) { apply(update, w + i, dw + i, end - i); });
    };
  });
}

Kernel momentum(const KernelCall& call) {
  require_all_f32(call);
  return plain(
      [update = momentum_of(call), count = call.out().elements(), threads = call.threads](const Memory& m) -> Task {
        return [=, w = m.out<float>(), velocity = m.out<float>(1), dw = m.in<float>(1),
                scalars = UpdateScalars{m.in<float>(3), m.in<float>(4)}] {
          if (scalars.skip()) return;
          const Momentum now = update.now(scalars);
          parallel(threads, count, kGrain,
                   [&](int, int64_t i, int64_t end) { apply(now, w + i, velocity + i, dw + i, end - i); });
        };
      });
}

Kernel adam(const KernelCall& call, bool decoupled) {
  require_all_f32(call);
  if (call.in(4).dtype != DType::i64) call.unsupported("the step counter must be i64");
  return plain([update = adam_of(call, decoupled), count = call.out().elements(),
                threads = call.threads](const Memory& m) -> Task {
    return [=, w = m.out<float>(), mean = m.out<float>(1), square = m.out<float>(2), dw = m.in<float>(1),
            step = m.in<int64_t>(4), scalars = UpdateScalars{m.in<float>(5), m.in<float>(6)}] {
      if (scalars.skip()) return;
      const Adam now = update.now(scalars, *step);
      parallel(threads, count, kGrain,
               [&](int, int64_t i, int64_t end) { apply(now, w + i, mean + i, square + i, dw + i, end - i); });
    };
  });
}

struct Lion {
  float beta1, beta2, decay;
  float rate = 0;
  float scale = 1;
};

void apply(const Lion& s, float* w, float* mean, const float* dw, int64_t count) {
  vectorised([=] {
    const float kept = 1 - s.rate * s.decay;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float gradient = s.scale * dw[i];
      const float direction = s.beta1 * mean[i] + (1 - s.beta1) * gradient;
      const float sign = direction > 0 ? 1.0F : (direction < 0 ? -1.0F : 0.0F);
      w[i] = w[i] * kept - s.rate * sign;
      mean[i] = s.beta2 * mean[i] + (1 - s.beta2) * gradient;
    }
  });
}

Kernel lion(const KernelCall& call) {
  require_all_f32(call);
  const Lion lion{real(call, "beta1"), real(call, "beta2"), real(call, "weight_decay")};
  return plain([lion, count = call.out().elements(), threads = call.threads](const Memory& m) -> Task {
    return [=, w = m.out<float>(), mean = m.out<float>(1), dw = m.in<float>(1),
            scalars = UpdateScalars{m.in<float>(3), m.in<float>(4)}] {
      if (scalars.skip()) return;
      Lion now = lion;
      now.rate = *scalars.rate;
      now.scale = scalars.scale_or_one();
      parallel(threads, count, kGrain,
               [&](int, int64_t i, int64_t end) { apply(now, w + i, mean + i, dw + i, end - i); });
    };
  });
}

Kernel next_step(const KernelCall& call) {
  if (call.in(0).dtype != DType::i64) call.unsupported("the step counter must be i64");
  return plain([](const Memory& m) -> Task { return [step = m.out<int64_t>()] { ++*step; }; });
}

double square_sum(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

Kernel global_norm(const KernelCall& call) {
  require_all_f32(call);
  std::vector<int64_t> counts;
  for (const TensorDesc& gradient : call.inputs) counts.push_back(gradient.elements());
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

Kernel clip_scale(const KernelCall& call) {
  require_all_f32(call);
  return plain([most = real(call, "max_norm")](const Memory& m) -> Task {
    return [=, norm = m.in<float>(0), scale = m.out<float>()] {
      constexpr float kEpsilon = 1e-6F;  // as PyTorch has it: a norm of zero divides
      *scale = std::min(1.0F, most / (*norm + kEpsilon));
    };
  });
}

Kernel loss_scale(const KernelCall& /*use*/) {
  return plain([](const Memory& m) -> Task {
    return [state = m.in<int64_t>(0), scale = m.out<float>()] {
      *scale = std::ldexp(1.0F, static_cast<int>(program::kFirstLossScale + *state));
    };
  });
}

Kernel next_loss_scale(const KernelCall& call) {
  call.require_f32(1);
  return plain([](const Memory& m) -> Task {
    return [norm = m.in<float>(1), state = m.out<int64_t>()] {
      const bool finite = std::isfinite(*norm);
      const bool doubles = finite && state[1] + 1 == program::kLossScaleSteps;
      state[0] += finite ? (doubles ? 1 : 0) : -1;
      state[1] = finite && !doubles ? state[1] + 1 : 0;
    };
  });
}

Kernel unscale(const KernelCall& call) {
  require_all_f32(call);
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
  table.add("adam", {[](const KernelCall& call) { return adam(call, false); }, contiguous_only, {}, by_elements});
  table.add("adamw", {[](const KernelCall& call) { return adam(call, true); }, contiguous_only, {}, by_elements});
  table.add("lion", {lion, contiguous_only, {}, by_elements});
  table.add("next_step", {next_step});
  table.add("global_norm", {global_norm});
  table.add("clip_scale", {clip_scale});
  table.add("loss_scale", {loss_scale});
  table.add("next_loss_scale", {next_loss_scale});
  table.add("unscale", {unscale});
}

}  // namespace plimsoll::kernels

// Normalisation of channels over the batch, a channel to a thread.
#include <cmath>

#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {
namespace {

// [batch, channels, ..]: each channel is `batch` planes of `size` elements.
struct Channels {
  int64_t batch, channels, size;
  float eps;
  int threads;

  explicit Channels(const Use& use)
      : batch(use.in(0).shape[0]),
        channels(use.in(0).shape[1]),
        size(Shape(use.in(0).shape.dims().subspan(2)).elements()),
        eps(static_cast<float>(use.call.real("eps"))),
        threads(use.threads) {
    for (int i = 0; i < use.arity(); ++i) use.require_f32(i);
  }

  float count() const { return static_cast<float>(batch * size); }
  int64_t plane(int64_t n, int64_t channel) const { return (n * channels + channel) * size; }

  template <class F>
  void for_each(const F& f) const {
    parallel(threads, channels, kGrain / (batch * size + 1) + 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) f(channel);
    });
  }
};

PLIMSOLL_VECTORISED double plane_sum(const float* x, int64_t size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += x[i];
  return sum;
}

PLIMSOLL_VECTORISED double plane_squares(const float* x, int64_t size, float mean) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

PLIMSOLL_VECTORISED void plane_affine(float* y, const float* x, int64_t size, float mean, float scale, float shift) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) y[i] = (x[i] - mean) * scale + shift;
}

float or_else(const float* values, int64_t at, float otherwise) { return values == nullptr ? otherwise : values[at]; }

Kernel forward(const Use& use) {
  const Channels c(use);
  return plain([c, made = use.made](const Memory& m) -> Task {
    const auto made_or_null = [&](size_t k) { return made[k] ? m.out<float>(static_cast<int>(k)) : nullptr; };
    return [=, x = m.in<float>(0), weight = m.in<float>(1), bias = m.in<float>(2), y = m.out<float>(),
            means = made_or_null(1), rstds = made_or_null(2), variances = made_or_null(3)] {
      c.for_each([=](int64_t channel) {
        double sum = 0;
        for (int64_t n = 0; n < c.batch; ++n) sum += plane_sum(x + c.plane(n, channel), c.size);
        const auto mean = static_cast<float>(sum / static_cast<double>(c.count()));
        double squares = 0;
        for (int64_t n = 0; n < c.batch; ++n) squares += plane_squares(x + c.plane(n, channel), c.size, mean);
        const auto variance = static_cast<float>(squares / static_cast<double>(c.count()));
        const float rstd = 1 / std::sqrt(variance + c.eps);
        if (means != nullptr) means[channel] = mean;
        if (rstds != nullptr) rstds[channel] = rstd;
        if (variances != nullptr) variances[channel] = variance;
        for (int64_t n = 0; n < c.batch; ++n) {
          const int64_t at = c.plane(n, channel);
          plane_affine(y + at, x + at, c.size, mean, rstd * or_else(weight, channel, 1), or_else(bias, channel, 0));
        }
      });
    };
  });
}

struct Sums {
  float dy, dy_normal;
};

// Sums of dy and of dy * (x - mean).
PLIMSOLL_VECTORISED Sums plane_sums(const float* dy, const float* x, int64_t size, float mean) {
  float sum = 0;
  float product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int64_t i = 0; i < size; ++i) {
    sum += dy[i];
    product += dy[i] * (x[i] - mean);
  }
  return {sum, product};
}

PLIMSOLL_VECTORISED void plane_gradient(float* dx, const float* dy, const float* x, int64_t size, float scale,
                                        float level, float mean, float slope) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) dx[i] = scale * (dy[i] - level - (x[i] - mean) * slope);
}

Kernel backward(const Use& use) {
  const Channels c(use);
  return plain([c, made = use.made](const Memory& m) -> Task {
    const auto made_or_null = [&](size_t k) { return made[k] ? m.out<float>(static_cast<int>(k)) : nullptr; };
    return [=, dy = m.in<float>(0), x = m.in<float>(1), means = m.in<float>(2), rstds = m.in<float>(3),
            weight = m.in<float>(4), dx = made_or_null(0), dweight = made_or_null(1), dbias = made_or_null(2)] {
      c.for_each([=](int64_t channel) {
        const float mean = means[channel];
        const float rstd = rstds[channel];
        double sum = 0;
        double product = 0;
        for (int64_t n = 0; n < c.batch; ++n) {
          const int64_t at = c.plane(n, channel);
          const Sums sums = plane_sums(dy + at, x + at, c.size, mean);
          sum += static_cast<double>(sums.dy);
          product += static_cast<double>(sums.dy_normal);
        }
        if (dweight != nullptr) dweight[channel] = static_cast<float>(product) * rstd;
        if (dbias != nullptr) dbias[channel] = static_cast<float>(sum);
        const float level = static_cast<float>(sum) / c.count();
        const float slope = static_cast<float>(product) * rstd * rstd / c.count();
        for (int64_t n = 0; dx != nullptr && n < c.batch; ++n) {
          const int64_t at = c.plane(n, channel);
          plane_gradient(dx + at, dy + at, x + at, c.size, rstd * or_else(weight, channel, 1), level, mean, slope);
        }
      });
    };
  });
}

Kernel update(const Use& use) {
  for (int i = 0; i < 4; ++i) use.require_f32(i);
  const auto momentum = static_cast<float>(use.call.real("momentum"));
  const auto count = static_cast<float>(use.call.integer("count"));
  return plain([=, channels = use.out().elements()](const Memory& m) -> Task {
    return [=, mean = m.out<float>(0), variance = m.out<float>(1), new_mean = m.in<float>(2),
            new_variance = m.in<float>(3)] {
      const float unbiased = count / (count - 1);
      for (int64_t i = 0; i < channels; ++i) {
        mean[i] = (1 - momentum) * mean[i] + momentum * new_mean[i];
        variance[i] = (1 - momentum) * variance[i] + momentum * new_variance[i] * unbiased;
      }
    };
  });
}

Kernel inference(const Use& use) {
  const Channels c(use);
  return plain([c](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), mean = m.in<float>(1), variance = m.in<float>(2), weight = m.in<float>(3),
            bias = m.in<float>(4), y = m.out<float>()] {
      c.for_each([=](int64_t channel) {
        const float scale = or_else(weight, channel, 1) / std::sqrt(variance[channel] + c.eps);
        for (int64_t n = 0; n < c.batch; ++n) {
          const int64_t at = c.plane(n, channel);
          plane_affine(y + at, x + at, c.size, mean[channel], scale, or_else(bias, channel, 0));
        }
      });
    };
  });
}

Kernel inference_backward(const Use& use) {
  const Channels c(use);
  return plain([c](const Memory& m) -> Task {
    return [=, dy = m.in<float>(0), variance = m.in<float>(1), weight = m.in<float>(2), dx = m.out<float>()] {
      c.for_each([=](int64_t channel) {
        const float scale = or_else(weight, channel, 1) / std::sqrt(variance[channel] + c.eps);
        for (int64_t n = 0; n < c.batch; ++n) {
          const int64_t at = c.plane(n, channel);
          plane_affine(dx + at, dy + at, c.size, 0, scale, 0);
        }
      });
    };
  });
}

Kernel inference_backward_affine(const Use& use) {
  const Channels c(use);
  return plain([c, made = use.made](const Memory& m) -> Task {
    return [=, dy = m.in<float>(0), x = m.in<float>(1), mean = m.in<float>(2), variance = m.in<float>(3),
            dweight = made[0] ? m.out<float>(0) : nullptr, dbias = made[1] ? m.out<float>(1) : nullptr] {
      c.for_each([=](int64_t channel) {
        Sums all{0, 0};
        for (int64_t n = 0; n < c.batch; ++n) {
          const int64_t at = c.plane(n, channel);
          const Sums sums = plane_sums(dy + at, x + at, c.size, mean[channel]);
          all = {all.dy + sums.dy, all.dy_normal + sums.dy_normal};
        }
        if (dweight != nullptr) dweight[channel] = all.dy_normal / std::sqrt(variance[channel] + c.eps);
        if (dbias != nullptr) dbias[channel] = all.dy;
      });
    };
  });
}

}  // namespace

void register_batch_norm_cpu(KernelTable& table) {
  table.add("batch_norm", {forward});
  table.add("batch_norm_backward", {backward});
  table.add("batch_norm_update", {update});
  table.add("batch_norm_inference", {inference});
  table.add("batch_norm_inference_backward", {inference_backward});
  table.add("batch_norm_inference_backward_affine", {inference_backward_affine});
}

}  // namespace plimsoll::kernels

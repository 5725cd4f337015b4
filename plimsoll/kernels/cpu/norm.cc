// Normalisation of rows: layer_norm and rms_norm. Rows in f16 and bf16 are widened one by one.
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

struct RowNorm {
  int64_t rows, width;
  float eps;
  bool centred;
  int threads;
  TensorDesc like_x;  // and like y and their gradients

  RowNorm(const KernelCall& call, bool with_mean)
      : eps(static_cast<float>(call.op.real("eps"))),
        centred(with_mean),
        threads(call.threads),
        like_x(contiguous(call.in(0).dtype, call.in(0).shape)) {
    for (int i = 0; i < call.arity(); ++i) {
      if (call.in(i).dtype != like_x.dtype || !is_low_precision(like_x.dtype)) call.require_f32(i);
    }
    const auto axis = static_cast<size_t>(call.op.axis("axis"));
    const Shape& x = call.in(0).shape;
    width = Shape(x.dims().subspan(axis)).elements();
    rows = Shape(x.dims().first(axis)).elements();
  }

  int64_t grain() const { return kGrain / (width + 1) + 1; }

  // Room of each thread for rows in f32; none where that is what they are.
  int64_t workspace_bytes(int count) const {
    return is_low_precision(like_x.dtype) ? threads * count * row_bytes() : 0;
  }
  float* workspace(std::byte* workspaces, int count, int part, int row) const {
    return reinterpret_cast<float*>(workspaces + (part * count + row) * row_bytes());
  }

 private:
  int64_t row_bytes() const { return align_up(width * 4, kAlignment); }
};

struct Statistics {
  float mean, rstd;
};

Statistics statistics_of(const float* x, int64_t width, float eps, bool centred) {
  return vectorised([=] {
    float mean = 0;
    if (centred) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += x[i];
      mean = sum / static_cast<float>(width);
    }
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    return Statistics{mean, 1 / std::sqrt(squares / static_cast<float>(width) + eps)};
  });
}

void normalise(float* y, const float* x, const float* weight, const float* bias, int64_t width, Statistics s) {
  vectorised([=] {
    if (weight != nullptr && bias != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) y[i] = (x[i] - s.mean) * s.rstd * weight[i] + bias[i];
    } else {
      for (int64_t i = 0; i < width; ++i) {
        y[i] = (x[i] - s.mean) * s.rstd * (weight == nullptr ? 1 : weight[i]) + (bias == nullptr ? 0 : bias[i]);
      }
    }
  });
}

Kernel forward(const KernelCall& call, bool centred) {
  const RowNorm norm(call, centred);
  const int rstd_place = centred ? 2 : 1;
  const bool wants_mean = centred && call.produces(1);
  const bool wants_rstd = call.produces(rstd_place);
  return {norm.workspace_bytes(1), [=](const Memory& m) -> Task {
            return [=, x = WideInput(norm.like_x, m.inputs[0]), weight = m.in<float>(1), bias = m.in<float>(2),
                    y = WideOutput(norm.like_x, m.outputs[0]), mean = wants_mean ? m.out<float>(1) : nullptr,
                    rstd = wants_rstd ? m.out<float>(rstd_place) : nullptr, scratch = m.scratch] {
              parallel(norm.threads, norm.rows, norm.grain(), [=](int part, int64_t begin, int64_t end) {
                float* workspace = norm.workspace(scratch, 1, part, 0);
                for (int64_t row = begin; row < end; ++row) {
                  const int64_t at = row * norm.width;
                  const float* from = x.line(at, norm.width, workspace);
                  float* to = y.line(at, workspace);
                  const Statistics s = statistics_of(from, norm.width, norm.eps, norm.centred);
                  if (mean != nullptr) mean[row] = s.mean;
                  if (rstd != nullptr) rstd[row] = s.rstd;
                  normalise(to, from, weight, bias, norm.width, s);
                  y.keep(at, norm.width, to);
                }
              });
            };
          }};
}

struct RowGradient {
  float* dx;
  const float* dy;
  const float* x;
  const float* weight;  // nullptr: 1
  float* dweight;       // partial sums
  float* dbias;
};

// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean(g) - n * mean(g * n)). dx may lie where x or dy
// do, so the sums come first. weight(i) is a number, so that nothing branches.
template <class Weight>
[[gnu::always_inline]] inline void row_gradient_with(const RowGradient& row, const Weight& weight, int64_t width,
                                                     Statistics s, bool centred) {
  const RowGradient r = row;
  float level = 0;
  float slope = 0;
#pragma omp simd reduction(+ : level, slope)
  for (int64_t i = 0; i < width; ++i) {
    const float normal = (r.x[i] - s.mean) * s.rstd;
    const float g = r.dy[i] * weight(i);
    r.dweight[i] += r.dy[i] * normal;
    r.dbias[i] += r.dy[i];
    level += g;
    slope += g * normal;
  }
  level = centred ? level / static_cast<float>(width) : 0;
  slope /= static_cast<float>(width);
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const float normal = (r.x[i] - s.mean) * s.rstd;
    r.dx[i] = s.rstd * (r.dy[i] * weight(i) - level - normal * slope);
  }
}

void row_gradient(const RowGradient& r, int64_t width, Statistics s, bool centred) {
  vectorised([=] {
    if (const float* weight = r.weight; weight != nullptr) {
      row_gradient_with(
          r, [weight](int64_t i) { return weight[i]; }, width, s, centred);
    } else {
      row_gradient_with(
          r, [](int64_t) { return 1.0F; }, width, s, centred);
    }
  });
}

Kernel backward(const KernelCall& call, bool centred) {
  const RowNorm norm(call, centred);
  const bool wants_weight = call.produces(1);
  const bool wants_bias = centred && call.produces(2);
  const int rstd_place = centred ? 3 : 2;
  const int64_t sums = align_up(2 * kSumParts * norm.width * 4, kAlignment);
  return {
      sums + norm.workspace_bytes(2), [=](const Memory& m) -> Task {
        return [=, dy = WideInput(norm.like_x, m.inputs[0]), x = WideInput(norm.like_x, m.inputs[1]),
                mean = centred ? m.in<float>(2) : nullptr, rstd = m.in<float>(rstd_place),
                weight = m.in<float>(rstd_place + 1), dx = WideOutput(norm.like_x, m.outputs[0]),
                dweight = wants_weight ? m.out<float>(1) : nullptr, dbias = wants_bias ? m.out<float>(2) : nullptr,
                partial = m.scratch_at<float>(0), workspaces = m.scratch + sums] {
          const int64_t width = norm.width;
          float* bias_partial = partial + kSumParts * width;
          parallel_sums(norm.threads, norm.rows, norm.grain(), [=](int part, int thread, int64_t begin, int64_t end) {
            float* weight_sum = partial + part * width;
            float* bias_sum = bias_partial + part * width;
            float* workspace = norm.workspace(workspaces, 2, thread, 0);
            for (int64_t i = 0; i < width; ++i) weight_sum[i] = bias_sum[i] = 0;
            for (int64_t row = begin; row < end; ++row) {
              const int64_t at = row * width;
              float* to = dx.line(at, workspace);
              row_gradient({to, dy.line(at, width, workspace),
                            x.line(at, width, norm.workspace(workspaces, 2, thread, 1)), weight, weight_sum, bias_sum},
                           width, {mean == nullptr ? 0 : mean[row], rstd[row]}, centred);
              dx.keep(at, width, to);
            }
          });
          const int parts = sum_parts(norm.rows, norm.grain());
          if (dweight != nullptr) add_partials(dweight, partial, parts, width);
          if (dbias != nullptr) add_partials(dbias, bias_partial, parts, width);
        };
      }};
}

// Rows are along the first dimension, unless that is normalised, too.
Tiling tile_rows(const KernelCall& call, std::vector<int> inputs, std::vector<int> outputs, std::vector<int> sums) {
  if (call.op.axis("axis") == 0) return {};
  return by_rows(call, std::move(inputs), std::move(outputs), std::move(sums));
}

// Weights and what is summed for them are f32.
bool upcasts_rows(const KernelCall& call) { return low_precision_only_in(call, {0}, {0}); }
bool upcasts_rows_backward(const KernelCall& call) { return low_precision_only_in(call, {0, 1}, {0}); }

}  // namespace

void register_norm_cpu(KernelTable& table) {
  table.add("layer_norm", {[](const KernelCall& call) { return forward(call, true); },
                           contiguous_only,
                           {},
                           [](const KernelCall& call) {
                             return tile_rows(call, {0}, {0, 1, 2}, {});
                           },
                           upcasts_rows});
  table.add("layer_norm_backward", {[](const KernelCall& call) { return backward(call, true); },
                                    contiguous_only,
                                    {},
                                    [](const KernelCall& call) {
                                      return tile_rows(call, {0, 1, 2, 3}, {0}, {1, 2});
                                    },
                                    upcasts_rows_backward});
  table.add("rms_norm", {[](const KernelCall& call) { return forward(call, false); },
                         contiguous_only,
                         {},
                         [](const KernelCall& call) {
                           return tile_rows(call, {0}, {0, 1}, {});
                         },
                         upcasts_rows});
  table.add("rms_norm_backward", {[](const KernelCall& call) { return backward(call, false); },
                                  contiguous_only,
                                  {},
                                  [](const KernelCall& call) {
                                    return tile_rows(call, {0, 1, 2}, {0}, {1});
                                  },
                                  upcasts_rows_backward});
}

}  // namespace plimsoll::kernels

// Arrays as lines along one dimension.
#pragma once

#include <cmath>
#include <limits>

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/math.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// log(sum(exp(x))) of a line in one piece; infinite when all of it is minus infinity or some of it is infinite.
inline float log_sum_exp(const simd::ElementLoops& loops, const void* x, int64_t length) {
  const float most = loops.largest(x, length);
  return std::isinf(most) ? most : most + std::log(loops.sum_of_exp(x, length, most));
}

// Element i of a line lies `i * stride` after its start.
struct Lines {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t stride = 1;

  // The tensor must be contiguous.
  Lines(const TensorDesc& tensor, int axis) : length(tensor.shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= tensor.shape[i];
    for (int i = axis + 1; i < tensor.shape.rank(); ++i) stride *= tensor.shape[i];
  }

  int64_t count() const { return outer * stride; }
  int64_t start(int64_t line) const { return line / stride * stride * length + line % stride; }
  int64_t grain() const { return kGrain / (length + 1) + 1; }  // lines that are worth a thread

  float largest(const float* x) const {
    if (stride == 1) return simd::functions().on_f32.largest(x, length);
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < length; ++i) most = x[i * stride] > most ? x[i * stride] : most;
    return most;
  }

  float exp_sum(const float* x, float most) const {
    if (stride == 1) return simd::functions().on_f32.sum_of_exp(x, length, most);
    float sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += fast_exp(x[i * stride] - most);
    return sum;
  }

  // As above, of a line with any stride.
  float log_sum_exp(const float* x) const {
    const float most = largest(x);
    return std::isinf(most) ? most : most + std::log(exp_sum(x, most));
  }
};

}  // namespace plimsoll::kernels

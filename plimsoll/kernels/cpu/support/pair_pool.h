// Max-pools of 2x2 windows with a stride of 2 and no padding over planes in row-major order: most of those in use. Each
// row of y is made of two rows of x, in loops that the compiler makes vector code of. Taps are numbered 0 1 / 2 3.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels {

// x is [height, width], y and the indices are [height / 2, width / 2].
struct PairPlane {
  int64_t height = 0;
  int64_t width = 0;

  int64_t rows() const { return height / 2; }
  int64_t columns() const { return width / 2; }
};

// The largest of each window; of equal ones the first, and NaN above all. No indices: null.
template <class Index>
void maximum_of_pairs(const PairPlane& plane, const float* x, float* y, Index* indices) {
  vectorised([plane, x, y, indices] {
    constexpr int64_t kChunk = 256;
    int32_t numbers[kChunk];
    for (int64_t row = 0; row < plane.rows(); ++row) {
      const float* top = x + 2 * row * plane.width;
      const float* bottom = top + plane.width;
      for (int64_t first = 0; first < plane.columns(); first += kChunk) {
        const int64_t count = std::min(kChunk, plane.columns() - first);
        const int64_t at = row * plane.columns() + first;
        for (int64_t j = 0; j < count; ++j) {
          float largest = top[2 * (first + j)];
          int32_t number = 0;
          const auto take = [&](float value, int32_t tap) {
            const bool is_larger = (value > largest) | (value != value);
            largest = is_larger ? value : largest;
            number = is_larger ? tap : number;
          };
          take(top[2 * (first + j) + 1], 1);
          take(bottom[2 * (first + j)], 2);
          take(bottom[2 * (first + j) + 1], 3);
          y[at + j] = largest;
          numbers[j] = number;
        }
        if (indices == nullptr) continue;
        for (int64_t j = 0; j < count; ++j) indices[at + j] = static_cast<Index>(numbers[j]);
      }
    }
  });
}

// The gradient goes to the tap that was the largest; the others, and places in no window, get zero.
template <class Index>
void maximum_of_pairs_backward(const PairPlane& plane, const float* dy, const Index* indices, float* dx) {
  if (plane.height % 2 != 0 || plane.width % 2 != 0) std::fill(dx, dx + plane.height * plane.width, 0.0F);
  vectorised([plane, dy, indices, dx] {
    for (int64_t row = 0; row < plane.rows(); ++row) {
      float* __restrict top = dx + 2 * row * plane.width;
      float* __restrict bottom = top + plane.width;
      for (int64_t j = 0; j < plane.columns(); ++j) {
        const float slope = 0.0F + dy[row * plane.columns() + j];  // -0 counts as 0, as in a sum
        const int32_t number = indices[row * plane.columns() + j];
        top[2 * j] = number == 0 ? slope : 0.0F;
        top[2 * j + 1] = number == 1 ? slope : 0.0F;
        bottom[2 * j] = number == 2 ? slope : 0.0F;
        bottom[2 * j + 1] = number == 3 ? slope : 0.0F;
      }
    }
  });
}

}  // namespace plimsoll::kernels

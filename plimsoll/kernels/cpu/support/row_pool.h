// Max-pools over planes in row-major order whose windows are evenly spaced along a row: a row of windows at a time, one
// tap of all of them after the other, in loops that the compiler makes vector code of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels {

// The windows along a row.
struct WindowRow {
  // The windows that have a tap inside of x.
  struct Range {
    int64_t first = 0, end = 0;
  };

  int64_t count = 0;
  int64_t start = 0;   // of the first, which may be before x
  int64_t stride = 1;  // from one to the next
  int64_t step = 1;    // from tap to tap
  std::vector<Range> by_tap = {};

  WindowRow() = default;
  WindowRow(const std::vector<simd::Reach>& windows, int64_t kernel, int64_t tap_step)
      : count(static_cast<int64_t>(windows.size())), step(tap_step), by_tap(static_cast<size_t>(kernel)) {
    if (count == 0) return;
    start = windows[0].start;
    if (count > 1) stride = windows[1].start - start;
    for (int64_t i = count - 1; i >= 0; --i) {
      const simd::Reach& reach = windows[static_cast<size_t>(i)];
      for (int64_t k = reach.first; k < reach.end; ++k) {
        Range& range = by_tap[static_cast<size_t>(k)];
        range = {i, std::max(range.end, i + 1)};
      }
    }
  }
};

// The largest of some windows beside each other, tap by tap; of equal ones the first, and NaN above all.
class WindowChunk {
 public:
  static constexpr int64_t kMost = 256;  // windows

  WindowChunk(const WindowRow& windows, int64_t first)
      : windows_(windows), first_(first), count_(std::min(kMost, windows.count - first)) {
    std::fill(largest_, largest_ + count_, -std::numeric_limits<float>::infinity());
    std::fill(numbers_, numbers_ + count_, -1);
  }

  // The taps of one row of x; `number` is that of the first.
  void take_row(const float* row, int32_t number) {
    for (size_t k = 0; k < windows_.by_tap.size(); ++k, ++number) {
      const int64_t begin = std::max(windows_.by_tap[k].first, first_);
      const int64_t end = std::min(windows_.by_tap[k].end, first_ + count_);
      if (begin >= end) continue;
      const float* from = row + windows_.start + begin * windows_.stride + static_cast<int64_t>(k) * windows_.step;
      take(from, begin - first_, end - begin, number);
    }
  }

  // A window that sees nothing of x has no number: 0.
  template <class Index>
  void write(float* y, Index* indices) const {
    std::copy(largest_, largest_ + count_, y + first_);
    if (indices == nullptr) return;
    for (int64_t i = 0; i < count_; ++i) indices[first_ + i] = static_cast<Index>(std::max(numbers_[i], 0));
  }

 private:
  void take(const float* from, int64_t at, int64_t count, int32_t number) {
    if (windows_.stride == 1) return take_apart<1>(from, 1, at, count, number);
    if (windows_.stride == 2) return take_apart<2>(from, 2, at, count, number);
    take_apart<0>(from, windows_.stride, at, count, number);
  }

  // With a stride that the compiler knows, or 0.
  template <int64_t kStride>
  void take_apart(const float* from, int64_t stride, int64_t at, int64_t count, int32_t number) {
    float* __restrict largest = largest_ + at;
    int32_t* __restrict numbers = numbers_ + at;
    vectorised([=] {
      for (int64_t i = 0; i < count; ++i) {
        const float value = from[i * (kStride == 0 ? stride : kStride)];
        const bool is_larger = (value > largest[i]) | (value != value) | (numbers[i] < 0);
        largest[i] = is_larger ? value : largest[i];
        numbers[i] = is_larger ? number : numbers[i];
      }
    });
  }

  const WindowRow& windows_;
  int64_t first_;
  int64_t count_;
  float largest_[kMost];
  int32_t numbers_[kMost];
};

}  // namespace plimsoll::kernels

// The height of a stack of buffers over each section, as a tree: raising a run of sections and asking for the highest
// of a run both take logarithmic time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plimsoll/pack/instance.h"

namespace plimsoll::pack {

class Skyline {
 public:
  explicit Skyline(int32_t sections) {
    while (leaves_ < sections) leaves_ *= 2;
    highest_.assign(2 * leaves_, 0);
    raised_.assign(2 * leaves_, 0);
  }

  int64_t highest(Span span) const { return highest(1, 0, leaves_, span); }
  void raise(Span span, int64_t height) { raise(1, 0, leaves_, span, height); }

 private:
  // A node covers [first, first + width). Its highest_ covers its whole subtree; its raised_ holds for every section
  // of it and is not pushed down.
  int64_t highest(int32_t node, int32_t first, int32_t width, Span span) const {
    if (span.first <= first && first + width <= span.end) return highest_[node];
    const int32_t half = width / 2;
    int64_t height = raised_[node];
    if (span.first < first + half) height = std::max(height, highest(2 * node, first, half, span));
    if (span.end > first + half) height = std::max(height, highest(2 * node + 1, first + half, half, span));
    return height;
  }

  void raise(int32_t node, int32_t first, int32_t width, Span span, int64_t height) {
    highest_[node] = std::max(highest_[node], height);
    if (span.first <= first && first + width <= span.end) {
      raised_[node] = std::max(raised_[node], height);
      return;
    }
    const int32_t half = width / 2;
    if (span.first < first + half) raise(2 * node, first, half, span, height);
    if (span.end > first + half) raise(2 * node + 1, first + half, half, span, height);
  }

  int32_t leaves_ = 1;
  std::vector<int64_t> highest_;
  std::vector<int64_t> raised_;
};

}  // namespace plimsoll::pack

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
    nodes_.resize(2 * leaves_);
  }

  int64_t highest(Span span) const { return highest(1, 0, leaves_, span); }
  void raise(Span span, int64_t height) { raise(1, 0, leaves_, span, height); }

 private:
  struct Node {
    int64_t highest = 0;  // of its sections
    int64_t raised = 0;   // what all of them were raised to at once; not passed on to the nodes below
  };

  // A node covers [first, first + width).
  int64_t highest(int32_t node, int32_t first, int32_t width, Span span) const {
    if (span.first <= first && first + width <= span.end) return nodes_[node].highest;
    const int32_t half = width / 2;
    int64_t height = nodes_[node].raised;
    if (span.first < first + half) height = std::max(height, highest(2 * node, first, half, span));
    if (span.end > first + half) height = std::max(height, highest(2 * node + 1, first + half, half, span));
    return height;
  }

  void raise(int32_t node, int32_t first, int32_t width, Span span, int64_t height) {
    nodes_[node].highest = std::max(nodes_[node].highest, height);
    if (span.first <= first && first + width <= span.end) {
      nodes_[node].raised = std::max(nodes_[node].raised, height);
      return;
    }
    const int32_t half = width / 2;
    if (span.first < first + half) raise(2 * node, first, half, span, height);
    if (span.end > first + half) raise(2 * node + 1, first + half, half, span, height);
  }

  int32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace plimsoll::pack

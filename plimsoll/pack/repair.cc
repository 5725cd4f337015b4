#include "plimsoll/pack/repair.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace plimsoll::pack {
namespace {

// The indices by rising key.
std::vector<int32_t> rising(const std::vector<int64_t>& keys) {
  std::vector<int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return keys[a] < keys[b]; });
  return order;
}

// The arena seen from the bottom or from the top.
class View {
 public:
  View(const Instance& instance, int64_t capacity, bool from_top)
      : instance_(instance), capacity_(capacity), from_top_(from_top) {
    for (int32_t i = 0; i < static_cast<int32_t>(instance.fixed.size()); ++i) {
      if (instance.fixed[i] >= 0) instance_.fixed[i] = flipped(i, instance.fixed[i]);
    }
  }

  Placement refill(std::span<const int64_t> hint, const Limits& limits) const {
    Placement placement = first_fit(instance_, order_of(hint), capacity_ + 1, limits.deadline);
    if (placement.offsets.empty() || !from_top_) return placement;
    placement.peak = 0;
    for (int32_t i = 0; i < instance_.count(); ++i) {
      placement.offsets[i] = flipped(i, placement.offsets[i]);
      placement.peak = std::max(placement.peak, placement.offsets[i] + instance_.sizes[i]);
    }
    return placement;
  }

 private:
  // By the hint's offsets, the unknown ones last.
  std::vector<int32_t> order_of(std::span<const int64_t> hint) const {
    std::vector<int64_t> keys(hint.size(), INT64_MAX);
    for (int32_t i = 0; i < instance_.count(); ++i) {
      if (hint[i] >= 0) keys[i] = flipped(i, hint[i]);
    }
    return rising(keys);
  }

  int64_t flipped(int32_t i, int64_t offset) const {
    return from_top_ ? capacity_ - offset - instance_.sizes[i] : offset;
  }

  Instance instance_;
  int64_t capacity_;
  bool from_top_;
};

}  // namespace

Placement refill(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, const Limits& limits) {
  Placement placement = View(instance, capacity, false).refill(hint, limits);
  if (!placement.offsets.empty() || !instance.alignments.empty()) return placement;  // from the top they are others
  return View(instance, capacity, true).refill(hint, limits);
}

Placement restack(const Instance& instance, std::span<const int64_t> hint) {
  std::vector<int64_t> keys(hint.begin(), hint.end());
  std::replace(keys.begin(), keys.end(), int64_t{-1}, INT64_MAX);
  return stack_up(instance, rising(keys));
}

}  // namespace plimsoll::pack

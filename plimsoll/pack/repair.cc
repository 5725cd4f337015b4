#include "plimsoll/pack/repair.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "plimsoll/pack/window.h"

namespace plimsoll::pack {
namespace {

// The arena seen from the bottom or from the top: what one packing holds in place at its bottom, the other does at its
// top.
class View {
 public:
  View(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, bool from_top, const Limits& limits)
      : instance_(instance), capacity_(capacity), from_top_(from_top) {
    for (int32_t i = 0; i < static_cast<int32_t>(instance.fixed.size()); ++i) {
      if (instance.fixed[i] >= 0) instance_.fixed[i] = turned(i, instance.fixed[i]);
    }
    set_order(hint);
    filled_ = first_fit(instance_, order_, INT64_MAX, limits.deadline);
  }

  bool filled() const { return filled_.peak <= capacity_; }
  Placement take_filled() const { return finished(filled_.offsets); }

  // A short search in the order of the hint. Of what first fit has made, the buffers below `quarters` of the arena
  // stay.
  Placement search(Strategy strategy, int quarters, const Inference& inference, Limits limits) const {
    const Instance kept = with_lowest_fixed(capacity_ * quarters / 4);
    const auto free = std::count(kept.fixed.begin(), kept.fixed.end(), -1);
    limits.nodes = std::min(limits.nodes, static_cast<int64_t>(kNodesPerBuffer * static_cast<double>(free)));
    Search search(kept, inference);
    return search.run(capacity_, strategy, ranks_, limits) == Verdict::found ? finished(search.offsets()) : Placement{};
  }

 private:
  static constexpr double kNodesPerBuffer = 1.15;  // where it helps, it does nearly at once

  // By the hint's offsets, the unknown ones last.
  void set_order(std::span<const int64_t> hint) {
    std::vector<int64_t> keys(hint.size(), INT64_MAX);
    for (int32_t i = 0; i < instance_.count(); ++i) {
      if (hint[i] >= 0) keys[i] = turned(i, hint[i]);
    }
    order_.resize(hint.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    ranks_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) ranks_[order_[i]] = static_cast<int32_t>(i);
  }

  int64_t turned(int32_t i, int64_t offset) const {
    return from_top_ ? capacity_ - offset - instance_.sizes[i] : offset;
  }

  Instance with_lowest_fixed(int64_t below) const {
    Instance kept = instance_;
    kept.fixed.resize(kept.count(), -1);
    for (int32_t i = 0; i < kept.count(); ++i) {
      if (filled_.offsets[i] + kept.sizes[i] <= below) kept.fixed[i] = filled_.offsets[i];
    }
    return kept;
  }

  Placement finished(const std::vector<int64_t>& offsets) const {
    Placement placement{offsets, 0};
    for (int32_t i = 0; i < instance_.count(); ++i) {
      placement.offsets[i] = turned(i, offsets[i]);
      placement.peak = std::max(placement.peak, placement.offsets[i] + instance_.sizes[i]);
    }
    return placement;
  }

  Instance instance_;
  int64_t capacity_;
  bool from_top_;
  std::vector<int32_t> order_;
  std::vector<int32_t> ranks_;
  Placement filled_;
};

struct Try {
  bool from_top;
  int quarters;
  Strategy strategy;
};

// Those that repaired the most, and different, packings in the least time; see docs/packing.md.
constexpr Try kTries[] = {{true, 2, Strategy::fewest_choices},
                          {true, 1, Strategy::fewest_choices},
                          {false, 3, Strategy::by_rank},
                          {true, 2, Strategy::lowest},
                          {false, 2, Strategy::lowest}};

}  // namespace

Placement repair(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, bool searching,
                 const Inference& inference, const Limits& limits) {
  const View up(instance, hint, capacity, false, limits);
  if (up.filled()) return up.take_filled();
  std::optional<View> down;
  if (instance.alignments.empty()) down.emplace(instance, hint, capacity, true, limits);  // or alignments are others
  if (down && down->filled()) return down->take_filled();
  if (!searching) return {};
  Placement found = repair_windows(instance, hint, capacity, inference, limits);
  for (const Try& way : kTries) {
    if (!found.offsets.empty() || !down || std::chrono::steady_clock::now() >= limits.deadline) break;
    found = (way.from_top ? *down : up).search(way.strategy, way.quarters, inference, limits);
  }
  return found;
}

}  // namespace plimsoll::pack

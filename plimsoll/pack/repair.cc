#include "plimsoll/pack/repair.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::pack {
namespace {

constexpr int64_t kNodesPerBuffer = 4;
constexpr int32_t kMargins[] = {1, 4, 16};  // sections around what collides

class Repair {
 public:
  Repair(const Instance& instance, std::span<const int64_t> hint, int64_t capacity)
      : instance_(instance), hint_(hint), capacity_(capacity), troubled_(instance.sections()), ranks_(hint.size()) {
    for (int32_t i = 0; i < instance.count(); ++i) find_trouble(i);
    std::vector<int32_t> order(hint.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return hint[a] < hint[b]; });
    for (size_t i = 0; i < order.size(); ++i) ranks_[order[i]] = static_cast<int32_t>(i);
  }

  Placement run(const Inference& inference, const Limits& limits) const {
    for (const int32_t margin : kMargins) {
      Instance window = instance_;
      if (!fix_beyond(margin, window)) break;  // the window is everything: no repair, but a search from nothing
      Search search(window, inference);
      for (const Strategy strategy : {Strategy::by_rank, Strategy::fewest_choices, Strategy::lowest}) {
        Limits part = limits;
        part.nodes = std::min(limits.nodes, kNodesPerBuffer * instance_.count());
        const Verdict verdict = search.run(capacity_, strategy, ranks_, part);
        if (verdict == Verdict::infeasible) break;
        if (verdict == Verdict::found) return finished(search.offsets());
      }
    }
    return {};
  }

 private:
  void find_trouble(int32_t i) {
    const bool misfit = hint_[i] < 0 || hint_[i] % instance_.alignment(i) != 0 ||
                        hint_[i] + instance_.sizes[i] > capacity_ ||
                        (instance_.fixed_offset(i) >= 0 && instance_.fixed_offset(i) != hint_[i]);
    if (misfit) {
      mark(instance_.hull(i));
      return;
    }
    for (int32_t j = 0; j < i; ++j) {
      const Span a = instance_.hull(i);
      const Span b = instance_.hull(j);
      const Span common{std::max(a.first, b.first), std::min(a.end, b.end)};
      const bool share_bytes = hint_[j] < hint_[i] + instance_.sizes[i] && hint_[i] < hint_[j] + instance_.sizes[j];
      if (common.first < common.end && share_bytes) mark(common);
    }
  }

  void mark(Span span) { std::fill(troubled_.begin() + span.first, troubled_.begin() + span.end, true); }

  // Fixes all buffers that stay `margin` sections away from trouble; whether there are any.
  bool fix_beyond(int32_t margin, Instance& window) const {
    std::vector<int32_t> troubles_before(troubled_.size() + 1);
    for (size_t s = 0; s < troubled_.size(); ++s) troubles_before[s + 1] = troubles_before[s] + (troubled_[s] ? 1 : 0);
    bool any = false;
    window.fixed.assign(hint_.size(), -1);
    for (int32_t i = 0; i < instance_.count(); ++i) {
      const Span hull = instance_.hull(i);
      const int32_t from = std::max(hull.first - margin, 0);
      const int32_t to = std::min(hull.end + margin, instance_.sections());
      const bool calm = troubles_before[to] == troubles_before[from];
      window.fixed[i] = calm ? hint_[i] : instance_.fixed_offset(i);
      any |= calm;
    }
    return any;
  }

  Placement finished(const std::vector<int64_t>& offsets) const {
    Placement placement{offsets, 0};
    for (int32_t i = 0; i < instance_.count(); ++i) {
      placement.peak = std::max(placement.peak, offsets[i] + instance_.sizes[i]);
    }
    return placement;
  }

  const Instance& instance_;
  std::span<const int64_t> hint_;
  int64_t capacity_;
  std::vector<bool> troubled_;  // by section
  std::vector<int32_t> ranks_;
};

}  // namespace

Placement repair(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, const Inference& inference,
                 const Limits& limits) {
  return Repair(instance, hint, capacity).run(inference, limits);
}

}  // namespace plimsoll::pack

#include "plimsoll/pack/window.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace plimsoll::pack {
namespace {

constexpr int64_t kOut = -1;

bool meet(Span a, Span b) { return a.first < b.end && b.first < a.end; }

// The offsets of a hint, and who collides with whom there.
class Kept {
 public:
  Kept(const Instance& instance, std::span<const int64_t> hint, int64_t capacity)
      : instance_(instance), offsets_(hint.begin(), hint.end()), rivals_(hint.size()) {
    for (int32_t i = 0; i < instance.count(); ++i) {
      if (instance.fixed_offset(i) >= 0) offsets_[i] = instance.fixed_offset(i);
      const bool inside = offsets_[i] >= 0 && offsets_[i] + instance.sizes[i] <= capacity;
      if (!inside || offsets_[i] % instance.alignment(i) != 0) offsets_[i] = kOut;
    }
    list_collisions();
  }

  // Takes out whoever collides with the most others, until none do.
  std::vector<int64_t> without_collisions() {
    const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    for (;;) {
      const auto most = std::max_element(rivals_.begin(), rivals_.end(), fewer) - rivals_.begin();
      if (rivals_[most].empty()) return offsets_;
      take_out(static_cast<int32_t>(most));
    }
  }

 private:
  void list_collisions() {
    std::vector<int32_t> order;
    for (int32_t i = 0; i < instance_.count(); ++i) {
      if (offsets_[i] != kOut) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return offsets_[a] < offsets_[b]; });
    for (size_t a = 0; a < order.size(); ++a) {
      const int64_t end = offsets_[order[a]] + instance_.sizes[order[a]];
      for (size_t b = a + 1; b < order.size() && offsets_[order[b]] < end; ++b) note_if_alive(order[a], order[b]);
    }
  }

  // Two buffers share bytes; they collide when they live at the same time. One that is fixed is not to blame.
  void note_if_alive(int32_t a, int32_t b) {
    if (!overlap(instance_.spans_of(a), instance_.spans_of(b))) return;
    if (instance_.fixed_offset(a) < 0) rivals_[a].push_back(b);
    if (instance_.fixed_offset(b) < 0) rivals_[b].push_back(a);
  }

  void take_out(int32_t i) {
    for (const int32_t rival : rivals_[i]) std::erase(rivals_[rival], i);
    rivals_[i].clear();
    offsets_[i] = kOut;
  }

  const Instance& instance_;
  std::vector<int64_t> offsets_;
  std::vector<std::vector<int32_t>> rivals_;
};

class WindowRepair {
 public:
  WindowRepair(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, const Inference& inference,
               const Limits& limits)
      : instance_(instance),
        hint_(hint),
        capacity_(capacity),
        inference_(inference),
        limits_(limits),
        offsets_(Kept(instance, hint, capacity).without_collisions()) {}

  Placement run() {
    for (;;) {
      const auto out = std::find(offsets_.begin(), offsets_.end(), kOut);
      if (out == offsets_.end()) return finished();
      if (!place_around(static_cast<int32_t>(out - offsets_.begin()))) return {};
    }
  }

 private:
  bool place_around(int32_t buffer) {
    Span window = instance_.hull(buffer);
    for (int32_t least = kLeastFree; 2 * least <= instance_.count(); least *= 2) {
      const std::vector<int32_t> free = widen(window, least);
      const std::vector<int32_t> neighbours = neighbours_of(free);
      const bool too_wide = 3 * (free.size() + neighbours.size()) > 2 * offsets_.size();
      if (too_wide || std::chrono::steady_clock::now() >= limits_.deadline) return false;
      if (pack_anew(free, neighbours)) return true;
    }
    return false;
  }

  // The buffers that live in the window, once it is wide enough to hold at least so many of them.
  std::vector<int32_t> widen(Span& window, int32_t least) const {
    for (;; window = {window.first - 1, window.end + 1}) {
      std::vector<int32_t> alive;
      for (int32_t i = 0; i < instance_.count(); ++i) {
        if (meet(instance_.hull(i), window)) alive.push_back(i);
      }
      if (static_cast<int32_t>(alive.size()) >= least) return alive;
    }
  }

  bool pack_anew(const std::vector<int32_t>& free, const std::vector<int32_t>& neighbours) {
    std::vector<int32_t> chosen = free;
    chosen.insert(chosen.end(), neighbours.begin(), neighbours.end());
    Instance part = restrict_to(instance_, chosen);
    part.fixed.assign(chosen.size(), -1);
    for (size_t k = 0; k < chosen.size(); ++k) {
      part.fixed[k] = k < free.size() ? instance_.fixed_offset(chosen[k]) : offsets_[chosen[k]];
    }
    const std::vector<int32_t> ranks = ranks_of(chosen);
    Limits limits = limits_;
    limits.nodes = std::min(limits.nodes, static_cast<int64_t>(chosen.size() + free.size() / 2));
    Search search(part, inference_);
    for (const Strategy strategy : {Strategy::lowest, Strategy::fewest_choices}) {
      if (search.run(capacity_, strategy, ranks, limits) != Verdict::found) continue;
      for (size_t k = 0; k < free.size(); ++k) offsets_[free[k]] = search.offsets()[k];
      return true;
    }
    return false;
  }

  // Those in place that live with one of `free`, or in between.
  std::vector<int32_t> neighbours_of(const std::vector<int32_t>& free) const {
    Span reach = instance_.hull(free.front());
    std::vector<bool> is_free(instance_.count());
    for (const int32_t i : free) {
      const Span hull = instance_.hull(i);
      reach = {std::min(reach.first, hull.first), std::max(reach.end, hull.end)};
      is_free[i] = true;
    }
    std::vector<int32_t> neighbours;
    for (int32_t i = 0; i < instance_.count(); ++i) {
      if (!is_free[i] && offsets_[i] != kOut && meet(instance_.hull(i), reach)) neighbours.push_back(i);
    }
    return neighbours;
  }

  // By the hint's offsets, the unknown ones last.
  std::vector<int32_t> ranks_of(const std::vector<int32_t>& chosen) const {
    const auto key = [&](int32_t k) { return static_cast<uint64_t>(hint_[chosen[k]]); };
    std::vector<int32_t> order(chosen.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
    std::vector<int32_t> ranks(order.size());
    for (size_t k = 0; k < order.size(); ++k) ranks[order[k]] = static_cast<int32_t>(k);
    return ranks;
  }

  Placement finished() {
    Placement placement{std::move(offsets_), 0};
    for (int32_t i = 0; i < instance_.count(); ++i) {
      placement.peak = std::max(placement.peak, placement.offsets[i] + instance_.sizes[i]);
    }
    return placement;
  }

  static constexpr int32_t kLeastFree = 32;

  const Instance& instance_;
  std::span<const int64_t> hint_;
  int64_t capacity_;
  const Inference& inference_;
  Limits limits_;
  std::vector<int64_t> offsets_;
};

}  // namespace

Placement repair_windows(const Instance& instance, std::span<const int64_t> hint, int64_t capacity,
                         const Inference& inference, const Limits& limits) {
  return WindowRepair(instance, hint, capacity, inference, limits).run();
}

}  // namespace plimsoll::pack

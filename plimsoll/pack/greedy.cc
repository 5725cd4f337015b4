#include "plimsoll/pack/greedy.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "plimsoll/base/bytes.h"
#include "plimsoll/pack/skyline.h"

namespace plimsoll::pack {
namespace {

// Above this many buffers only passes that stay near-linear are made.
constexpr int32_t kMostForFirstFit = 200000;
// From so many on, first fit may not get through in time.
constexpr int32_t kLeastForBestFit = 20000;
// Below this many the complete search is faster than searching over first-fit orders.
constexpr int32_t kLeastForPromotion = 500;

std::vector<int32_t> all_in_order(const Instance& instance) {
  std::vector<int32_t> order(instance.count());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Indices by falling key; equal keys stay in the order of the input.
template <typename Key>
std::vector<int32_t> falling(const Instance& instance, Key key) {
  std::vector<int32_t> order = all_in_order(instance);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
  return order;
}

int32_t width(const Instance& instance, int32_t i) { return instance.hull(i).end - instance.hull(i).first; }

// Placed buffers, in strips of consecutive sections: each strip has all that live in it, by rising offset. Short-lived
// buffers, which are the most, then meet only what lives when they do.
class FirstFit {
 public:
  explicit FirstFit(const Instance& instance) : instance_(instance), strip_sections_(strip_width(instance)) {
    strips_.resize((instance.sections() + strip_sections_ - 1) / strip_sections_);
    cursors_.resize(strips_.size());
  }

  void put(int32_t i, int64_t offset) {
    const Placed placed{offset, offset + instance_.sizes[i], instance_.hull(i), i};
    for (int32_t s = first_strip(i); s <= last_strip(i); ++s) {
      const auto at = std::upper_bound(strips_[s].begin(), strips_[s].end(), offset,
                                       [](int64_t value, const Placed& other) { return value < other.offset; });
      strips_[s].insert(at, placed);
    }
  }

  // What one strip pushes up may have to clear another once more; each goes on where it stopped.
  int64_t lowest(int32_t i) {
    const int32_t first = first_strip(i);
    const int32_t last = last_strip(i);
    std::fill(cursors_.begin() + first, cursors_.begin() + last + 1, 0);
    int64_t offset = 0;
    for (int64_t before = -1; before != offset;) {
      before = offset;
      for (int32_t s = first; s <= last; ++s) offset = lowest_in(strips_[s], cursors_[s], i, offset);
      if (first == last) break;
    }
    return offset;
  }

 private:
  struct Placed {
    int64_t offset;
    int64_t end;
    Span hull;
    int32_t index;
  };
  using Strip = std::vector<Placed>;

  // As wide as buffers live on average: few of them lie in many strips.
  static int32_t strip_width(const Instance& instance) {
    constexpr int32_t kLeast = 16;
    if (instance.count() < kLeastForStrips) return instance.sections();
    int64_t total = 0;
    for (int32_t i = 0; i < instance.count(); ++i) total += width(instance, i);
    return static_cast<int32_t>(std::max<int64_t>(kLeast, total / instance.count()));
  }

  int32_t first_strip(int32_t i) const { return instance_.hull(i).first / strip_sections_; }
  int32_t last_strip(int32_t i) const { return (instance_.hull(i).end - 1) / strip_sections_; }

  int64_t lowest_in(const Strip& strip, size_t& cursor, int32_t i, int64_t offset) const {
    const Span hull = instance_.hull(i);
    const int64_t size = instance_.sizes[i];
    const int64_t alignment = instance_.alignment(i);
    for (; cursor < strip.size(); ++cursor) {
      const Placed& other = strip[cursor];
      if (other.offset >= offset + size) break;
      if (other.end <= offset || other.hull.end <= hull.first || hull.end <= other.hull.first) continue;
      if (!instance_.span_begin.empty() && !overlap(instance_.spans_of(i), instance_.spans_of(other.index))) continue;
      offset = alignment == 1 ? other.end : align_up(other.end, alignment);
    }
    return offset;
  }

  static constexpr int32_t kLeastForStrips = 64;

  const Instance& instance_;
  int32_t strip_sections_;
  std::vector<Strip> strips_;
  std::vector<size_t> cursors_;  // of `lowest`, by strip
};

// Places the buffers with fixed offsets through `put` and returns where the highest ends.
template <typename Put>
int64_t place_fixed(const Instance& instance, Placement& placement, Put put) {
  int64_t peak = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(instance.fixed.size()); ++i) {
    if (instance.fixed[i] < 0) continue;
    placement.offsets[i] = instance.fixed[i];
    put(i, instance.fixed[i]);
    peak = std::max(peak, instance.fixed[i] + instance.sizes[i]);
  }
  return peak;
}

// The holes of an arena that grows at its top, by size and by offset.
class FreeList {
 public:
  int64_t allocate(int64_t size, int64_t alignment) {
    for (auto hole = by_size_.lower_bound({size, 0}); hole != by_size_.end(); ++hole) {
      const auto [length, start] = *hole;
      const int64_t offset = align_up(start, alignment);
      if (offset + size > start + length) continue;
      remove(start, length);
      add(start, offset - start);
      add(offset + size, start + length - offset - size);
      return offset;
    }
    const int64_t offset = align_up(top_, alignment);
    add(top_, offset - top_);
    top_ = offset + size;
    return offset;
  }

  void release(int64_t offset, int64_t size) {
    auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.end() && after->first == offset + size) {
      size += after->second;
      const auto [start, length] = *after;
      remove(start, length);
    }
    const auto before = by_offset_.lower_bound(offset);
    if (before != by_offset_.begin() && std::prev(before)->first + std::prev(before)->second == offset) {
      const auto [start, length] = *std::prev(before);
      remove(start, length);
      offset = start;
      size += length;
    }
    if (offset + size == top_) {
      top_ = offset;
    } else {
      add(offset, size);
    }
  }

 private:
  void add(int64_t start, int64_t length) {
    if (length == 0) return;
    by_size_.emplace(length, start);
    by_offset_.emplace(start, length);
  }
  void remove(int64_t start, int64_t length) {
    by_size_.erase({length, start});
    by_offset_.erase(start);
  }

  int64_t top_ = 0;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  std::map<int64_t, int64_t> by_offset_;
};

// What an allocator that always takes the smallest hole would do as time goes by; gaps are not used.
Placement best_fit_in_time(const Instance& instance) {
  Placement placement{std::vector<int64_t>(instance.count()), 0};
  const auto by = [&](auto key) {
    std::vector<int32_t> order = all_in_order(instance);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
    return order;
  };
  const std::vector<int32_t> ends = by([&](int32_t i) { return instance.hull(i).end; });
  FreeList holes;
  size_t released = 0;
  for (const int32_t i : by([&](int32_t b) { return instance.hull(b).first; })) {
    for (; instance.hull(ends[released]).end <= instance.hull(i).first; ++released) {
      holes.release(placement.offsets[ends[released]], instance.sizes[ends[released]]);
    }
    placement.offsets[i] = holes.allocate(instance.sizes[i], instance.alignment(i));
    placement.peak = std::max(placement.peak, placement.offsets[i] + instance.sizes[i]);
  }
  return placement;
}

// Keeps the best placement and knows when it is good enough.
class Contest {
 public:
  Contest(int64_t target, std::chrono::steady_clock::time_point deadline) : target_(target), deadline_(deadline) {}
  bool won() const { return best_.peak <= target_; }
  int64_t limit() const { return best_.peak; }
  const Placement& best() const { return best_; }
  bool open() const { return !won() && std::chrono::steady_clock::now() < deadline_; }
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  void enter(Placement placement) {
    if (!placement.offsets.empty() && placement.peak <= best_.peak) best_ = std::move(placement);
  }
  Placement take() { return std::move(best_); }

 private:
  int64_t target_;
  std::chrono::steady_clock::time_point deadline_;
  Placement best_;
};

void try_first_fit(const Instance& instance, Contest& contest) {
  const std::vector<int64_t> crowd = crowds(instance);
  const auto most = static_cast<double>(*std::max_element(instance.loads.begin(), instance.loads.end()));
  const auto size = [&](int32_t i) { return static_cast<double>(instance.sizes[i]); };
  const auto crowd_step = [&](int32_t i) { return std::floor(40 * static_cast<double>(crowd[i]) / most); };
  const auto enter = [&](auto key) {
    if (contest.open()) contest.enter(first_fit(instance, falling(instance, key), contest.limit(), contest.deadline()));
  };
  enter(size);
  enter([&](int32_t i) { return std::pair(crowd_step(i), size(i)); });
  enter([&](int32_t i) { return size(i) * size(i) * width(instance, i); });
  enter([&](int32_t i) { return size(i) * width(instance, i); });
  enter([&](int32_t i) { return width(instance, i); });
  enter([&](int32_t i) { return -instance.hull(i).first; });
  enter([&](int32_t i) { return instance.hull(i).end; });
}

// Local search over orders: what stands at the top goes earlier, for as long as the peak does not rise. The number of
// rounds falls with the square of the buffers, so that the work stays within some tens of milliseconds.
void promote_the_highest(const Instance& instance, Contest& contest) {
  const double count = instance.count();
  const auto rounds = static_cast<int>(std::min(300.0, 4e7 / (count * count)));
  if (rounds == 0 || !contest.open()) return;
  std::vector<int32_t> order = falling(instance, [&](int32_t i) { return -contest.best().offsets[i]; });
  std::mt19937_64 random(1);
  for (int round = 0; round < rounds && contest.open(); ++round) {
    std::vector<int32_t> changed = order;
    const Placement& best = contest.best();
    const auto highest = std::max_element(changed.begin(), changed.end(), [&](int32_t a, int32_t b) {
      return best.offsets[a] + instance.sizes[a] < best.offsets[b] + instance.sizes[b];
    });
    const auto target = changed.begin() + static_cast<int64_t>(random() % (highest - changed.begin() + 1));
    std::rotate(target, highest, highest + 1);
    Placement placement = first_fit(instance, changed, contest.limit() + 1);
    if (placement.offsets.empty()) continue;
    order = std::move(changed);
    contest.enter(std::move(placement));
  }
}

}  // namespace

Placement stack_up(const Instance& instance, std::span<const int32_t> order) {
  Placement placement{std::vector<int64_t>(instance.count()), 0};
  Skyline skyline(instance.sections());
  const auto put = [&](int32_t i, int64_t offset) {
    for (const Span& span : instance.spans_of(i)) skyline.raise(span, offset + instance.sizes[i]);
  };
  placement.peak = place_fixed(instance, placement, put);
  for (const int32_t i : order) {
    if (instance.fixed_offset(i) >= 0) continue;
    int64_t offset = 0;
    for (const Span& span : instance.spans_of(i)) offset = std::max(offset, skyline.highest(span));
    placement.offsets[i] = align_up(offset, instance.alignment(i));
    put(i, placement.offsets[i]);
    placement.peak = std::max(placement.peak, placement.offsets[i] + instance.sizes[i]);
  }
  return placement;
}

Placement first_fit(const Instance& instance, std::span<const int32_t> order, int64_t limit,
                    std::chrono::steady_clock::time_point deadline) {
  constexpr size_t kBetweenLooks = 1024;  // at the clock
  Placement placement{std::vector<int64_t>(instance.count()), 0};
  FirstFit fit(instance);
  placement.peak = place_fixed(instance, placement, [&](int32_t i, int64_t offset) { fit.put(i, offset); });
  for (size_t k = 0; k < order.size(); ++k) {
    const int32_t i = order[k];
    if (k % kBetweenLooks == kBetweenLooks - 1 && std::chrono::steady_clock::now() >= deadline) return {};
    if (instance.fixed_offset(i) >= 0) continue;
    const int64_t offset = fit.lowest(i);
    placement.offsets[i] = offset;
    placement.peak = std::max(placement.peak, offset + instance.sizes[i]);
    if (placement.peak >= limit) return {};
    fit.put(i, offset);
  }
  return placement;
}

// Buffers that nest like calls (forward and backward) come out perfect when the longest-lived go first.
Placement pack_at_once(const Instance& instance) {
  return stack_up(instance, falling(instance, [&](int32_t i) { return width(instance, i); }));
}

Placement pack_greedily(const Instance& instance, int64_t target, Placement start,
                        std::chrono::steady_clock::time_point deadline) {
  Contest contest(target, deadline);
  contest.enter(std::move(start));
  if (!contest.won() && instance.fixed.empty() && instance.count() >= kLeastForBestFit) {
    contest.enter(best_fit_in_time(instance));
  }
  if (instance.count() <= kMostForFirstFit) try_first_fit(instance, contest);
  if (instance.count() >= kLeastForPromotion) promote_the_highest(instance, contest);
  return contest.take();
}

}  // namespace plimsoll::pack

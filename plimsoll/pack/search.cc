#include "plimsoll/pack/search.h"

#include <algorithm>

namespace plimsoll::pack {

Search::Search(const Instance& instance, const Inference& inference)
    : state_(instance, inference), inference_(inference) {}

Verdict Search::run(int64_t capacity, Strategy strategy, std::span<const int32_t> ranks, const Limits& limits) {
  if (capacity != capacity_) nogoods_.clear();
  capacity_ = capacity;
  strategy_ = strategy;
  ranks_ = ranks;
  decisions_.clear();
  if (!state_.reset(capacity)) return Verdict::infeasible;
  const int64_t last_node = limits.nodes == INT64_MAX ? INT64_MAX : nodes_ + limits.nodes;
  while (!finished()) {
    if (nodes_ >= last_node || out_of_limits(limits)) return Verdict::stopped;
    const int32_t buffer = choose();
    if (buffer >= 0 && descend(buffer)) continue;
    const Span failed = buffer >= 0 ? decisions_.back().part : part_of(first_unplaced());
    if (!backtrack(failed)) return Verdict::infeasible;
  }
  offsets_.resize(state_.instance().count());
  for (int32_t i = 0; i < state_.instance().count(); ++i) offsets_[i] = state_.resting(i);
  return Verdict::found;
}

bool Search::out_of_limits(const Limits& limits) const {
  if (limits.cancelled != nullptr && limits.cancelled->load(std::memory_order_relaxed)) return true;
  return std::chrono::steady_clock::now() >= limits.deadline;
}

bool Search::descend(int32_t buffer) {
  ++nodes_;
  const Span part = part_of(buffer);
  const uint64_t key = inference_.nogoods ? Nogoods::key_of(state_, part) : 0;
  // A state known to fail is left as if both of its branches had been tried.
  decisions_.push_back({buffer, part, state_.mark(), key});
  if (inference_.nogoods && nogoods_.contains(key)) {
    decisions_.back().buffer = -1;
    return false;
  }
  return state_.place(buffer);
}

// Takes decisions back until one has its other branch left. What failed depends only on the part that it lies in, so
// decisions about other parts are taken back untried.
bool Search::backtrack(Span failed) {
  while (!decisions_.empty()) {
    const Decision last = decisions_.back();
    decisions_.pop_back();
    state_.undo(last.mark);
    if (last.part.end <= failed.first || failed.end <= last.part.first) continue;
    if (last.buffer >= 0 && state_.pass_over(last.buffer)) return true;
    if (inference_.nogoods) nogoods_.insert(last.key);
    failed = last.part;
  }
  return false;
}

bool Search::before(int32_t a, int32_t b) const {
  if (state_.resting(a) != state_.resting(b)) return state_.resting(a) < state_.resting(b);
  return ranks_[a] < ranks_[b];
}

bool Search::tighter(int32_t a, int32_t b) const {
  if (state_.choices(a) != state_.choices(b)) return state_.choices(a) < state_.choices(b);
  return state_.slack(a) < state_.slack(b);
}

int32_t Search::choose() const {
  int32_t buffer = -1;
  const Span all{0, state_.instance().sections()};
  if (strategy_ == Strategy::fewest_choices) {
    const auto any = [](int32_t) { return true; };
    if (!decisions_.empty()) buffer = choose_tightest(decisions_.back().part, any);
    if (buffer < 0) buffer = choose_tightest(all, any);
  } else if (strategy_ == Strategy::lowest_tight) {
    const int32_t lowest = choose_lowest();
    if (lowest < 0) return -1;
    buffer = choose_tightest(all, [&](int32_t i) { return state_.resting(i) == state_.resting(lowest); });
  } else {
    buffer = choose_forced(all);
  }
  return buffer >= 0 ? buffer : choose_lowest();
}

// Of the buffers that do not wait, the lowest: nothing can go below it any more.
int32_t Search::choose_lowest() const {
  int32_t best = -1;
  const uint64_t* unplaced = state_.unplaced().words();
  for_each_common(unplaced, unplaced, state_.words(), [&](int32_t i) {
    if (!state_.waits(i) && (best < 0 || before(i, best))) best = i;
  });
  return best;
}

// Of the buffers that can come next in the section, the first that may be placed now. That is nearly always the lowest,
// so the others are looked at only when it is not.
int32_t Search::choose_in_section(int32_t section) const {
  const int32_t lowest = first_next(section, [](int32_t) { return true; });
  if (lowest < 0 || state_.placeable(lowest)) return lowest;
  return first_next(section, [&](int32_t i) { return state_.placeable(i); });
}

template <typename Accept>
int32_t Search::first_next(int32_t section, Accept accept) const {
  int32_t best = -1;
  for_each_common(state_.members(section), state_.unplaced().words(), state_.words(), [&](int32_t i) {
    if (state_.waits(i) || state_.lowest(i) > state_.limit(section)) return;
    if ((best < 0 || before(i, best)) && accept(i)) best = i;
  });
  return best;
}

int32_t Search::choose_forced(Span range) const {
  int32_t buffer = -1;
  for_each_within(state_.speaking().words(), range.first, range.end, [&](int32_t s) {
    if (buffer < 0 && state_.choices(s) == 1) buffer = choose_in_section(s);
  });
  return buffer;
}

// The first buffer of the tightest section that has one which `accept`s.
template <typename Accept>
int32_t Search::choose_tightest(Span range, Accept accept) const {
  const auto tightest = [&](auto candidate) {
    int32_t best = -1;
    for_each_within(state_.speaking().words(), range.first, range.end, [&](int32_t s) {
      if ((best < 0 || tighter(s, best)) && candidate(s)) best = s;
    });
    return best;
  };
  const auto usable = [&](int32_t s) {
    const int32_t buffer = choose_in_section(s);
    return buffer >= 0 && accept(buffer);
  };
  const int32_t section = tightest([](int32_t) { return true; });
  if (section < 0) return -1;
  if (usable(section)) return choose_in_section(section);
  const int32_t other = tightest(usable);
  return other < 0 ? -1 : choose_in_section(other);
}

int32_t Search::first_unplaced() const {
  BitSet unplaced = state_.unplaced();
  return unplaced.pop();
}

Span Search::part_of(int32_t buffer) const {
  if (!inference_.backjumping) return {0, state_.instance().sections()};
  Span part = state_.instance().hull(buffer);
  while (part.first > 0 && !state_.cut_after(part.first - 1)) --part.first;
  while (part.end < state_.instance().sections() && !state_.cut_after(part.end - 1)) ++part.end;
  return part;
}

}  // namespace plimsoll::pack

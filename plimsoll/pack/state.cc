#include "plimsoll/pack/state.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "plimsoll/base/bytes.h"

namespace plimsoll::pack {

State::State(const Instance& instance, const Inference& inference)
    : instance_(instance),
      inference_(inference),
      conflicts_(instance.count(), instance.count()),
      members_(instance.sections(), instance.count()),
      unplaced_(instance.count()),
      waiting_(instance.count()),
      next_twin_(instance.count(), -1),
      floors_(instance.sections()),
      lowest_tops_(instance.sections()),
      choices_(instance.sections()),
      speaking_(instance.sections()),
      dirty_sections_(instance.sections()),
      dirty_buffers_(instance.count()) {
  const int32_t count = instance.count();
  for (int32_t i = 0; i < count; ++i) {
    for (const Span& span : instance.spans_of(i)) {
      for (int32_t s = span.first; s < span.end; ++s) members_.insert(s, i);
    }
    if (instance.fixed_offset(i) >= 0) fixed_.push_back(i);
  }
  for (int32_t i = 0; i < count; ++i) {
    uint64_t* row = conflicts_.row(i);
    for (const Span& span : instance.spans_of(i)) {
      for (int32_t s = span.first; s < span.end; ++s) {
        std::transform(row, row + words(), members_.row(s), row, std::bit_or());
      }
    }
    conflicts_.erase(i, i);
  }
  if (!fixed_.empty()) list_fixed_near();
  if (inference.symmetry) order_twins();
}

void State::list_fixed_near() {
  std::sort(fixed_.begin(), fixed_.end(),
            [&](int32_t a, int32_t b) { return instance_.fixed[a] < instance_.fixed[b]; });
  fixed_near_.resize(instance_.count());
  for (int32_t i = 0; i < instance_.count(); ++i) {
    for (const int32_t f : fixed_) {
      if (conflicts_.contains(i, f)) fixed_near_[i].push_back(f);
    }
  }
}

void State::order_twins() {
  std::map<std::tuple<int64_t, int64_t, std::vector<std::pair<int32_t, int32_t>>>, int32_t> last;
  for (int32_t i = 0; i < instance_.count(); ++i) {
    if (instance_.fixed_offset(i) >= 0) continue;
    std::vector<std::pair<int32_t, int32_t>> spans;
    for (const Span& span : instance_.spans_of(i)) spans.emplace_back(span.first, span.end);
    const auto [twin, fresh] = last.try_emplace({instance_.sizes[i], instance_.alignment(i), std::move(spans)}, i);
    if (fresh) continue;
    next_twin_[twin->second] = i;
    twin->second = i;
  }
}

bool State::reset(int64_t capacity) {
  capacity_ = capacity;
  trail_.clear();
  dirty_sections_.clear();
  dirty_buffers_.clear();
  waiting_.clear();
  resting_.assign(instance_.count(), 0);
  lowest_.assign(instance_.count(), 0);
  limits_.assign(instance_.sections(), capacity);
  starts_.assign(instance_.sections(), 0);
  ends_.assign(instance_.sections(), 0);
  crossings_.assign(instance_.sections(), 0);
  speaking_.clear();
  for (int32_t i = 0; i < instance_.count(); ++i) shift(i, 1);
  for (int32_t s = 0; s < instance_.sections(); ++s) dirty_sections_.insert(s);
  for (const int32_t i : fixed_) resting_[i] = lowest_[i] = instance_.fixed[i];
  for (int32_t i = 0; i < instance_.count(); ++i) {
    if (instance_.fixed_offset(i) < 0 && !raise_lowest(i, lift_over_fixed(i, lowest_[i]))) return false;
    if (next_twin_[i] >= 0 && !raise_lowest(next_twin_[i], lowest_[i] + instance_.sizes[i])) return false;
  }
  return place_fixed() && propagate();
}

// Those with nothing unplaced that fits below them.
bool State::place_fixed() {
  return std::all_of(fixed_.begin(), fixed_.end(), [&](int32_t i) { return !placeable(i) || put(i); });
}

// Takes a buffer into the unplaced ones (sign 1) or out of them (sign -1).
void State::shift(int32_t buffer, int64_t sign) {
  const int64_t bytes = sign * instance_.sizes[buffer];
  for (const Span& span : instance_.spans_of(buffer)) {
    for (int32_t s = span.first; s < span.end; ++s) limits_[s] -= bytes;
    starts_[span.first] += static_cast<int32_t>(sign);
    ends_[span.end - 1] += static_cast<int32_t>(sign);
    note_speaking(span.first);
    note_speaking(span.end - 1);
    if (span.end < instance_.sections()) note_speaking(span.end);
  }
  const Span hull = instance_.hull(buffer);
  for (int32_t s = hull.first; s + 1 < hull.end; ++s) crossings_[s] += static_cast<int32_t>(sign);
  if (sign > 0) {
    unplaced_.insert(buffer);
  } else {
    unplaced_.erase(buffer);
  }
}

void State::note_speaking(int32_t section) {
  const bool within_next = ends_[section] == 0;  // or empty
  const bool within_previous = section > 0 && starts_[section] == 0 && ends_[section - 1] > 0;
  if (within_next || within_previous) {
    speaking_.erase(section);
  } else {
    speaking_.insert(section);
  }
}

bool State::placeable(int32_t buffer) const {
  const int64_t offset = resting_[buffer];
  return !waits(buffer) && all_common(conflicts(buffer), unplaced_.words(), words(),
                                      [&](int32_t other) { return lowest_[other] + instance_.sizes[other] > offset; });
}

bool State::place(int32_t buffer) { return put(buffer) && propagate(); }

bool State::put(int32_t buffer) {
  trail_.push_back({Kind::placed, buffer, 0, 0, 0});
  shift(buffer, -1);
  waiting_.erase(buffer);
  const int64_t top = resting_[buffer] + instance_.sizes[buffer];
  for (const Span& span : instance_.spans_of(buffer)) {
    // When the last span that ends there is gone, the next section speaks for both.
    const int32_t end = std::min(span.end + 1, instance_.sections());
    for_each_within(speaking_.words(), span.first, end, [&](int32_t s) { dirty_sections_.insert(s); });
  }
  touch_waiting(buffer, lowest_[buffer]);
  return all_common(conflicts(buffer), unplaced_.words(), words(), [&](int32_t other) { return rest_on(other, top); });
}

bool State::pass_over(int32_t buffer) {
  if (instance_.fixed_offset(buffer) >= 0) return false;
  const int64_t support = lowest_support(buffer, resting_[buffer] + 1);
  if (support == INT64_MAX) return false;
  const int64_t higher = resting_[buffer] + 1;
  return raise_lowest(buffer, inference_.support ? std::max(support, higher) : higher) && propagate();
}

void State::undo(size_t mark) {
  while (trail_.size() > mark) {
    const Change& change = trail_.back();
    switch (change.kind) {
      case Kind::offsets:
        resting_[change.index] = change.first;
        lowest_[change.index] = change.second;
        note_waiting(change.index);
        break;
      case Kind::placed:
        shift(change.index, 1);
        note_waiting(change.index);
        break;
      case Kind::section:
        floors_[change.index] = change.first;
        lowest_tops_[change.index] = change.second;
        choices_[change.index] = change.choices;
        break;
    }
    trail_.pop_back();
  }
  dirty_sections_.clear();
  dirty_buffers_.clear();
}

// An unplaced buffer with a fixed offset blocks all offsets at which `buffer` would share bytes with it.
int64_t State::lift_over_fixed(int32_t buffer, int64_t offset) const {
  if (fixed_near_.empty()) return offset;
  for (const int32_t f : fixed_near_[buffer]) {
    if (offset + instance_.sizes[buffer] <= instance_.fixed[f]) break;
    const int64_t top = instance_.fixed[f] + instance_.sizes[f];
    if (offset < top) offset = align_up(top, instance_.alignment(buffer));
  }
  return offset;
}

void State::note_waiting(int32_t buffer) {
  if (waits(buffer)) {
    waiting_.insert(buffer);
    dirty_buffers_.insert(buffer);
  } else {
    waiting_.erase(buffer);
  }
}

bool State::raise_lowest(int32_t buffer, int64_t offset) {
  if (offset <= lowest_[buffer]) return true;
  if (instance_.fixed_offset(buffer) >= 0) return false;
  if (!instance_.alignments.empty()) offset = align_up(offset, instance_.alignments[buffer]);
  offset = lift_over_fixed(buffer, offset);
  if (offset + instance_.sizes[buffer] > capacity_) return false;
  record(buffer);
  const int64_t before = lowest_[buffer];
  lowest_[buffer] = offset;
  note_waiting(buffer);
  touch_sections(buffer, before);
  touch_waiting(buffer, before);
  const int32_t twin = next_twin_[buffer];
  return twin < 0 || !unplaced_.contains(twin) || raise_lowest(twin, offset + instance_.sizes[buffer]);
}

// Something was placed below `buffer` that ends at `top`.
bool State::rest_on(int32_t buffer, int64_t top) {
  if (resting_[buffer] >= top) return true;
  if (instance_.fixed_offset(buffer) >= 0) return false;
  if (!instance_.alignments.empty()) top = align_up(top, instance_.alignments[buffer]);
  record(buffer);
  resting_[buffer] = top;
  if (!raise_lowest(buffer, top)) return false;
  note_waiting(buffer);
  return true;
}

// Queues the sections for which something may follow from a buffer's lowest offset having risen. Where it could come
// next and still can, nothing does unless it was the lowest there, at its offset or its end.
void State::touch_sections(int32_t buffer, int64_t lowest_before) {
  const int64_t top_before = lowest_before + instance_.sizes[buffer];
  const int64_t lowest = lowest_[buffer];
  for (const Span& span : instance_.spans_of(buffer)) {
    for_each_within(speaking_.words(), span.first, span.end, [&](int32_t s) {
      if (lowest_before > limits_[s]) return;
      if (lowest <= limits_[s] && lowest_before > floors_[s] && top_before > lowest_tops_[s]) return;
      dirty_sections_.insert(s);
    });
  }
}

// The same for the waiting buffers that it might have supported.
void State::touch_waiting(int32_t buffer, int64_t lowest_before) {
  for_each_common(conflicts(buffer), waiting_.words(), words(), [&](int32_t other) {
    if (lowest_before < resting_[other] + instance_.sizes[other]) dirty_buffers_.insert(other);
  });
}

bool State::propagate() {
  for (;;) {
    if (const int32_t section = dirty_sections_.pop(); section >= 0) {
      if (speaking_.contains(section) && !deduce_section(section)) return false;
    } else if (const int32_t buffer = dirty_buffers_.pop(); buffer >= 0) {
      if (!deduce_support(buffer)) return false;
    } else {
      return true;
    }
  }
}

bool State::deduce_section(int32_t section) {
  const int64_t* const sizes = instance_.sizes.data();
  const int64_t limit = limits_[section];
  int64_t floor = INT64_MAX;
  int64_t lowest_top = INT64_MAX;
  int64_t lowest_late = INT64_MAX;  // of those that cannot come next
  int32_t choices = 0;
  for_each_common(members(section), unplaced_.words(), words(), [&](int32_t i) {
    const int64_t lowest = lowest_[i];
    const bool can_be_next = lowest <= limit;
    choices += can_be_next ? 1 : 0;
    floor = std::min(floor, lowest);
    lowest_top = std::min(lowest_top, can_be_next ? lowest + sizes[i] : INT64_MAX);
    lowest_late = std::min(lowest_late, can_be_next ? INT64_MAX : lowest);
  });
  if (choices == 0) return false;
  trail_.push_back({Kind::section, section, choices_[section], floors_[section], lowest_tops_[section]});
  floors_[section] = floor;
  lowest_tops_[section] = lowest_top;
  choices_[section] = choices;
  if (!inference_.not_first || lowest_late >= lowest_top) return true;
  return all_common(members(section), unplaced_.words(), words(), [&](int32_t i) {
    return lowest_[i] <= limit || lowest_[i] >= lowest_top || raise_lowest(i, lowest_top);
  });
}

bool State::deduce_support(int32_t buffer) {
  if (!unplaced_.contains(buffer) || !waits(buffer)) return true;
  const int64_t support = lowest_support(buffer, lowest_[buffer]);
  if (support == INT64_MAX) return false;
  return !inference_.support || raise_lowest(buffer, support);
}

// The lowest end of an unplaced buffer that this one, not staying where it would rest now, can come to rest on; any end
// when it is at most `enough`. One must reach into the room that it leaves, for else it would fall back there.
int64_t State::lowest_support(int32_t buffer, int64_t enough) const {
  const int64_t room_end = inference_.dominance ? resting_[buffer] + instance_.sizes[buffer] : INT64_MAX;
  int64_t lowest_top = INT64_MAX;
  all_common(conflicts(buffer), unplaced_.words(), words(), [&](int32_t other) {
    if (lowest_[other] < room_end) lowest_top = std::min(lowest_top, lowest_[other] + instance_.sizes[other]);
    return lowest_top > enough;
  });
  return lowest_top;
}

}  // namespace plimsoll::pack

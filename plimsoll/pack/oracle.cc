#include "plimsoll/pack/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace plimsoll::pack {
namespace {

struct Event {
  int64_t time;
  bool starts;
  int64_t buffer;
  // At one time ends come before starts: lifetimes are half-open.
  bool operator<(const Event& other) const {
    return std::tie(time, starts, buffer) < std::tie(other.time, other.starts, other.buffer);
  }
};

void add_interval(std::vector<Event>& events, int64_t first, int64_t end, int64_t buffer) {
  if (first >= end) return;
  events.push_back({first, true, buffer});
  events.push_back({end, false, buffer});
}

std::vector<Event> events_in_order(std::span<const Buffer> buffers) {
  std::vector<Event> events;
  events.reserve(2 * buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t from = buffers[i].first;
    for (const Gap& gap : buffers[i].gaps) {
      add_interval(events, from, gap.first, static_cast<int64_t>(i));
      from = gap.end;
    }
    add_interval(events, from, buffers[i].end, static_cast<int64_t>(i));
  }
  std::sort(events.begin(), events.end());
  return events;
}

std::optional<Fault> fault_of_one(const Buffer& buffer, int64_t offset, int64_t capacity, int64_t index) {
  const auto fault = [&](Fault::Kind kind) { return Fault{.kind = kind, .buffer = index}; };
  if (offset < 0) return fault(Fault::Kind::negative);
  if (offset > capacity - buffer.bytes) return fault(Fault::Kind::beyond_capacity);
  if (offset % buffer.alignment != 0) return fault(Fault::Kind::misaligned);
  if (buffer.fixed_offset && *buffer.fixed_offset != offset) return fault(Fault::Kind::moved);
  return std::nullopt;
}

// Live buffers by offset never overlap, so a new one can only collide with its two neighbours.
std::optional<Fault> find_overlap(std::span<const Buffer> buffers, std::span<const int64_t> offsets) {
  std::map<int64_t, int64_t> live;  // offset -> buffer
  for (const Event& event : events_in_order(buffers)) {
    const int64_t offset = offsets[event.buffer];
    if (!event.starts) {
      live.erase(offset);
      continue;
    }
    const auto overlap = [&](int64_t other) {
      return Fault{Fault::Kind::overlap, std::min(event.buffer, other), std::max(event.buffer, other), event.time};
    };
    const auto above = live.lower_bound(offset);
    if (above != live.end() && above->first < offset + buffers[event.buffer].bytes) return overlap(above->second);
    if (above != live.begin()) {
      const auto [below, other] = *std::prev(above);
      if (below + buffers[other].bytes > offset) return overlap(other);
    }
    live.emplace_hint(above, offset, event.buffer);
  }
  return std::nullopt;
}

}  // namespace

std::string Fault::text() const {
  switch (kind) {
    case Kind::count:
      return "there is not one offset for each buffer";
    case Kind::negative:
      return fmt::format("buffer {} has a negative offset", buffer);
    case Kind::beyond_capacity:
      return fmt::format("buffer {} ends beyond the capacity", buffer);
    case Kind::misaligned:
      return fmt::format("the offset of buffer {} is not a multiple of its alignment", buffer);
    case Kind::moved:
      return fmt::format("buffer {} is not at its fixed offset", buffer);
    case Kind::overlap:
      return fmt::format("buffers {} and {} overlap at time {}", buffer, other, time);
  }
  return {};
}

std::optional<Fault> find_fault(std::span<const Buffer> buffers, std::span<const int64_t> offsets, int64_t capacity) {
  if (buffers.size() != offsets.size()) return Fault{.kind = Fault::Kind::count};
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (auto fault = fault_of_one(buffers[i], offsets[i], capacity, static_cast<int64_t>(i))) return fault;
  }
  return find_overlap(buffers, offsets);
}

}  // namespace plimsoll::pack

// The history of one device as lifetimes of blocks: what was alive at any moment, since when, and for what.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plimsoll/base/category.h"
#include "plimsoll/explain/snapshot.h"
#include "plimsoll/explain/stack_roles.h"

namespace plimsoll::explain {

// A block from the event that allocated it to the event that freed it, both as positions in the device's events.
struct Lifetime {
  int64_t bytes = 0;
  int64_t begin = -1;  // -1: before the recording began
  int64_t end = 0;     // kAlive: still there at the end
  uint64_t address = 0;
  uint32_t stack = 0;
  uint32_t free_stack = 0;
  Category category = Category::other;

  static constexpr int64_t kAlive = INT64_MAX;
  bool alive_at(int64_t event) const { return begin < event && event <= end; }  // just before `event` happens
};

using CategoryBytes = std::array<int64_t, kAllCategories.size()>;

struct Timeline {
  std::vector<Lifetime> lifetimes;
  std::vector<int64_t> step_ends;  // positions of events: the first event after each optimizer step
  int64_t events = 0;
  int64_t start_bytes = 0;  // alive when the recording began
  int64_t end_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t peak_event = 0;         // the state just before this event is the peak
  bool steps_are_marked = false;  // by the framework's annotations; otherwise told from stacks

  int64_t live_bytes(int64_t event) const;
  CategoryBytes live_by_category(int64_t event) const;
};

Timeline make_timeline(const Snapshot& snapshot, const DeviceState& device, const std::vector<StackRole>& roles);

}  // namespace plimsoll::explain

// A Trace is who held which bytes from when to when: one type, whether recorded here or read from another framework.
// Plain data; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plimsoll/base/category.h"

namespace plimsoll::trace {

enum class EventKind : uint8_t { alloc, free };

// One allocation or free. `id` names the block and may be used again once it was freed.
struct Event {
  int64_t time_ns = 0;  // since the trace began; 0 throughout when the source has no clock
  int64_t id = 0;
  int64_t bytes = 0;   // of the block, on its free too
  uint32_t tag = 0;    // index in the TagTable; 0 is "no tag"
  int16_t stream = 0;  // of the device queue that asked for the block, or gave it back
  EventKind kind = EventKind::alloc;
};
static_assert(sizeof(Event) == 32);

// What a block is for.
struct Tag {
  Category category = Category::other;
  std::string name;  // "conv1.weight", or a folded stack
  bool operator==(const Tag&) const = default;
};

// Tags by index, each once. Index 0 is always the empty tag.
class TagTable {
 public:
  TagTable() : tags_(1) {}

  uint32_t intern(Category category, std::string_view name);
  const Tag& operator[](uint32_t index) const { return tags_[index]; }
  size_t size() const { return tags_.size(); }

 private:
  std::vector<Tag> tags_;
  std::unordered_map<std::string, uint32_t> index_;  // by category and name
};

struct Trace {
  std::vector<Event> events;
  TagTable tags;
  int64_t dropped = 0;  // events lost before the first one here, because a ring buffer was full
};

// The most bytes alive at once.
int64_t live_peak_bytes(const Trace& trace);

}  // namespace plimsoll::trace

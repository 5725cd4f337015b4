// The ids that are alive at one point of a trace, each with a slot: a small number, given back when the block dies, so
// that what is known of a block stands in an array instead of a map. Ids that are small integers, as most traces have,
// are looked up in an array as well; addresses go through a map.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plimsoll/trace/trace.h"

namespace plimsoll::trace {

class LiveSet {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The slot of a live id, or kNone.
  uint32_t find(int64_t id) const {
    if (static_cast<uint64_t>(id) < small_.size()) return small_[static_cast<size_t>(id)];
    return large_.empty() ? kNone : find_large(id);
  }

  // Gives `id`, which must not be alive, a slot.
  uint32_t add(int64_t id);
  void remove(int64_t id);  // `id` must be alive

  uint32_t slots() const { return slots_; }  // all slots given so far are below this

 private:
  uint32_t find_large(int64_t id) const;
  uint32_t& entry(int64_t id);
  void widen(size_t size);

  std::vector<uint32_t> small_;                  // slot by id
  std::unordered_map<int64_t, uint32_t> large_;  // the same for ids beyond small_
  std::vector<uint32_t> free_slots_;
  uint32_t slots_ = 0;
};

// Tells whether events, given in order, make sense: blocks of at least one byte, each allocated while it is not alive
// and freed once, with the bytes and on the stream of its allocation. All that is alive at once stays within 1 EiB, so
// sums of bytes, rounded up or not, need no check afterwards.
class LifetimeChecker {
 public:
  // Whether the next event makes sense. One that does not changes nothing.
  bool accepts(const Event& event) { return event.kind == EventKind::alloc ? opens(event) : closes(event); }

 private:
  struct Block {
    int64_t bytes = 0;
    int16_t stream = 0;
    bool operator==(const Block&) const = default;
  };

  bool opens(const Event& event) {
    if (event.bytes < 1 || event.bytes > kMostLiveBytes - live_bytes_) return false;
    if (live_.find(event.id) != LiveSet::kNone) return false;
    live_bytes_ += event.bytes;
    const uint32_t slot = live_.add(event.id);
    if (slot == blocks_.size()) blocks_.emplace_back();
    blocks_[slot] = {event.bytes, event.stream};
    return true;
  }

  bool closes(const Event& event) {
    const uint32_t slot = live_.find(event.id);
    if (slot == LiveSet::kNone || blocks_[slot] != Block{event.bytes, event.stream}) return false;
    live_.remove(event.id);
    live_bytes_ -= event.bytes;
    return true;
  }

  static constexpr int64_t kMostLiveBytes = int64_t{1} << 60;

  LiveSet live_;
  int64_t live_bytes_ = 0;
  std::vector<Block> blocks_;  // by slot
};

// Why a LifetimeChecker that accepted `before` does not accept `event`: "id 7 is freed twice".
std::string lifetime_fault(std::span<const Event> before, const Event& event);

}  // namespace plimsoll::trace

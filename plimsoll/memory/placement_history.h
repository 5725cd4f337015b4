// Remembers where requests went, so that a step that repeats is placed as it was the last time. A request is known by
// its size, the bytes that were alive when it came, and the size of the request before it: in a training loop that
// names one moment of the step. A moment can have several spots: when the block in the first is still alive (a tensor
// that outlives its step, held until its successor exists), or something else is there, the next one is offered. So
// tensors that alternate between two places from step to step are at home in both.
//
// A table of bounded size: old moments are overwritten, and nothing breaks when one is lost. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll {

// Where a block of the heap is: at home, or shown through a view.
struct HeapPlace {
  int64_t offset = 0;  // granules from the heap's start; for a view, unused
  int32_t alias = kMainRange;
  static constexpr int32_t kMainRange = -1;
};

class PlacementHistory {
 public:
  // What the memory knows of a request, spot after spot.
  class Lookup {
   public:
    // The next spot that held this moment's block and whose block is dead; nothing when there are no more.
    std::optional<HeapPlace> next();
    // How many requests ago the youngest block of this moment came that is still alive; 0: none is.
    int64_t alive_age() const { return alive_age_; }

   private:
    friend class PlacementHistory;
    Lookup(PlacementHistory& memory, uint64_t key) : memory_(memory), key_(key) {}

    PlacementHistory& memory_;
    uint64_t key_;          // of the moment's next spot
    uint64_t offered_ = 0;  // key of the spot that `next` gave last
    int places_ = 0;        // looked at so far
    int64_t alive_age_ = 0;
  };

  // What `remember` returns, to tell the memory of the block's end.
  struct Ticket {
    uint64_t key = 0;
    int64_t serial = 0;
  };

  Lookup look_up(int64_t size, int64_t live);

  // The request of `recall` went to `spot`: to the one that `recall` gave last, or to a new one.
  Ticket remember(const Lookup& look_up, int64_t size, HeapPlace place, bool found_before);
  void freed(const Ticket& ticket);

 private:
  static constexpr size_t kFirstSlots = size_t{1} << 10;
  static constexpr size_t kMostSlots = size_t{1} << 16;

  struct Entry {
    uint64_t key = 0;
    int64_t offset = 0;
    int32_t alias = HeapPlace::kMainRange;
    bool alive = false;
    int64_t serial = 0;  // of the request; 0: empty
  };
  static_assert(sizeof(Entry) == 32);  // two to a cache line, none in two of them

  Entry& slot_for(uint64_t key);
  void grow();

  std::vector<Entry> entries_;  // a power of two of them
  size_t used_ = 0;             // that are not empty
  int64_t serial_ = 0;
  int64_t previous_size_ = 0;
};

}  // namespace plimsoll

// Remembers where a request went, so that a step that repeats is placed as it was the last time. A request is known by
// its size, the bytes that were alive when it came, and the size of the request before it: in a training loop that
// names one moment of the step. When the block of that moment is still alive (a tensor that outlives its step, held
// until its successor exists), the next moment of the same name is looked up, so that such tensors alternate.
//
// A fixed table: old moments are overwritten, and nothing breaks when one is lost. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

namespace plimsoll {

// Where a block of the heap is: at home, or shown through a view.
struct Spot {
  int64_t offset = 0;  // granules from the heap's start; for a view, unused
  int32_t view = kHome;
  static constexpr int32_t kHome = -1;
};

class SpotMemory {
 public:
  struct Moment {
    uint64_t key = 0;
    Spot spot;
    int64_t serial = 0;  // of the request; 0: empty
    bool alive = false;
  };

  // What is known of a request: the slot to remember it in, the spot of its last block if that is dead, or how many
  // requests ago the youngest block of that moment came that is still alive.
  struct Recall {
    uint32_t slot = 0;
    uint64_t key = 0;
    const Moment* last = nullptr;
    int64_t alive_age = 0;  // 0: none is alive
  };

  Recall recall(int64_t size, int64_t live);

  // The request was placed. Returns a serial to forget it by when it is freed.
  int64_t remember(const Recall& recall, int64_t size, Spot spot);
  void freed(uint32_t slot, int64_t serial);

 private:
  static constexpr uint32_t kSlots = 1 << 14;

  Moment& slot_for(uint64_t key);

  std::unique_ptr<Moment[]> moments_;  // made at the first request
  int64_t serial_ = 0;
  int64_t previous_size_ = 0;
};

}  // namespace plimsoll

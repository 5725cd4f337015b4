// The memory of one device as the preload library serves it: a Pool over the driver's pages, with the order of the
// streams that the program uses, and the blocks by their address. Thread-safe. The device is current in the calling
// thread.
#pragma once

#include <vector>

#include "plimsoll/base/spin_lock.h"
#include "plimsoll/device/cuda/order.h"
#include "plimsoll/device/cuda/pages.h"
#include "plimsoll/memory/pool.h"
#include "preload/pointer_table.h"
#include "preload/settings.h"

namespace plimsoll::preload {

using cuda::StreamHandle;

class DevicePool {
 public:
  DevicePool(const cuda::Driver& driver, int device, const Settings& settings);

  int device() const { return pages_.ordinal(); }

  // Throws ResourceExhausted, SystemError.
  void* allocate(size_t bytes, StreamHandle stream);

  // False: not a block of this pool. `stream` is where it was used last; a null pointer to it: where it was allocated.
  bool free(void* pointer, const StreamHandle* stream);
  // The same, put off until no stream captures: the graph may use the block, and the stream takes no events now.
  bool free_later(void* pointer, StreamHandle stream);
  void free_deferred();
  bool owns(const void* pointer) const;

  void begin_capture(StreamHandle stream);
  void end_capture(StreamHandle stream);
  void destroy_stream(StreamHandle stream);

  PoolStats stats() const;
  int64_t used_peak_bytes() const;
  int64_t reserved_peak_bytes() const;
  void reset_used_peak();
  void reset_reserved_peak();
  int64_t trim();
  void share_with(int device);

  // What the program is told by cudaMemGetInfo: the budget is the card.
  struct MemoryInfo {
    int64_t free_bytes = 0;
    int64_t total_bytes = 0;
  };
  MemoryInfo memory_info() const;

  trace::Trace trace() const { return recorder_.snapshot(); }

 private:
  struct Deferred {
    void* pointer = nullptr;
    StreamHandle stream = nullptr;
  };

  struct Outside {  // of the pool, on the card
    int64_t process_bytes = 0;
    int64_t free_bytes = 0;
  };
  Outside outside(int64_t held_bytes) const;
  bool permits(int64_t held_bytes, std::string& why) const;

  cuda::Driver driver_;
  int64_t total_bytes_;     // of the card
  int64_t baseline_bytes_;  // what others held before the program started; -1: not known
  cuda::CudaPages pages_;
  cuda::CudaOrder order_;
  trace::Recorder recorder_;
  Budget budget_;
  Pool pool_;              // its calls are serialised by the lock
  mutable SpinLock lock_;  // guards the pool, the order, the table and the list
  PointerTable blocks_;
  std::vector<Deferred> deferred_;
  int64_t kept_used_peak_ = 0;  // from before the pool's own peaks were reset for the other's sake
  int64_t kept_reserved_peak_ = 0;
};

}  // namespace plimsoll::preload

// A Recorder keeps the last `capacity` events of a running program in a ring of 32 bytes each, and turns them into a
// Trace when asked. Thread-safe; recording takes no memory and about 20 ns, so it can stay on.
//
// Events are stamped with the processor's own counter (steady_clock where there is none) and become nanoseconds since
// the recorder was made when a trace is taken: the clock's rate is measured over the recorder's whole life, so nothing
// is calibrated at the start.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>

#include "plimsoll/base/spin_lock.h"
#include "plimsoll/trace/clock.h"
#include "plimsoll/trace/trace.h"

namespace plimsoll::trace {

class Recorder {
 public:
  // A recorder of capacity 0 records nothing.
  explicit Recorder(int64_t capacity);

  int64_t capacity() const { return capacity_; }

  // The tag to record with; the same for the same category and name. Not for the hot path: once per use, not per block.
  uint32_t intern(Category category, std::string_view name);
  Tag tag(uint32_t index) const;  // what was interned

  // `id` names the block until it is freed; id and stream are 0 or more; a free has the bytes, tag and stream of its
  // allocation.
  void record_alloc(int64_t id, int64_t bytes, uint32_t tag = 0, int16_t stream = 0) {
    record(EventKind::alloc, id, bytes, tag, stream);
  }
  void record_free(int64_t id, int64_t bytes, uint32_t tag = 0, int16_t stream = 0) {
    record(EventKind::free, id, bytes, tag, stream);
  }

  // What the ring holds, oldest first. A free whose allocation is not in the trace (overwritten, taken before, or older
  // than the recorder) is left out, so every trace makes sense by itself; `dropped` counts all that is missing.
  Trace snapshot() const;
  Trace take();  // the same, and empties the ring; tags stay

 private:
  struct Free {
    void operator()(Event* events) const { std::free(events); }
  };
  struct Ring {
    std::vector<Event> events;  // oldest first
    int64_t overwritten = 0;
  };

  void record(EventKind kind, int64_t id, int64_t bytes, uint32_t tag, int16_t stream) {
    if (capacity_ == 0) return;
    const int64_t now = clock_.ticks();
    const std::lock_guard guard(lock_);
    Event& event = events_[next_];  // field by field: copied as a whole it would wait for its own stores
    event.time_ns = now;
    event.id = id;
    event.bytes = bytes;
    event.tag = tag;
    event.stream = stream;
    event.kind = kind;
    ++recorded_;
    if (++next_ == capacity_) next_ = 0;
  }

  Ring copy_ring() const;  // under lock_
  Trace to_trace(Ring ring) const;

  Clock clock_;
  int64_t capacity_;
  // Not touched until used, so a large ring costs only what was recorded.
  std::unique_ptr<Event[], Free> events_;  // time_ns in ticks; guarded by lock_, as the next two
  int64_t next_ = 0;                       // where the next event goes, below capacity_
  int64_t recorded_ = 0;                   // since the ring was last emptied
  mutable SpinLock lock_;
  TagTable tags_;  // guarded by tags_mutex_
  mutable std::mutex tags_mutex_;
};

}  // namespace plimsoll::trace

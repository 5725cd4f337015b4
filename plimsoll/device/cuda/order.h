// The order of CUDA streams for a pool. Streams have small numbers here; 0 is the legacy default stream. A wait is an
// event recorded on one stream and waited for on the other, left out when the work before it is done already.
//
// Not thread-safe: the pool serialises wait and synchronize, and the caller of `number` and `forget` must too. The
// device's primary context must be current.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/device/cuda/driver.h"
#include "plimsoll/memory/stream.h"

namespace plimsoll::cuda {

class CudaOrder : public StreamOrder {
 public:
  explicit CudaOrder(const Driver& driver);
  ~CudaOrder() override;
  CudaOrder(const CudaOrder&) = delete;
  CudaOrder& operator=(const CudaOrder&) = delete;

  // The number of a stream, a new one when it was not seen before. SystemError beyond 32,000 streams.
  Stream number(StreamHandle stream);

  // The stream will be destroyed, or begins a capture: what its memory must wait for is fixed now, in an event.
  void freeze(StreamHandle stream);
  void thaw(StreamHandle stream);    // the capture is over
  void forget(StreamHandle stream);  // frozen, and the handle may come back as another stream

  void wait(Stream waiter, Stream other) override;
  void synchronize() override;  // with every stream that was ever numbered, one by one: works beside a capture

  int64_t waits() const { return waits_; }  // that had to be queued

 private:
  struct Entry {
    StreamHandle handle = nullptr;
    EventHandle frozen = nullptr;  // stands for the stream while it cannot be asked
    bool gone = false;
  };

  EventHandle make_event() const;
  Entry* find(StreamHandle stream);
  std::optional<size_t> reusable() const;
  EventHandle event_of(Entry& entry);

  Driver driver_;
  EventHandle event_;
  std::vector<Entry> streams_;  // by number
  size_t latest_ = 0;           // the number found last
  int64_t waits_ = 0;
};

}  // namespace plimsoll::cuda

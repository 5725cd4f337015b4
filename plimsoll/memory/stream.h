// Streams are queues of work on a device; work on one runs in order, work on two does not.
#pragma once

#include <cstdint>

namespace plimsoll {

// 0 is the default stream. A pool keeps a little state per stream, so numbers should be small.
using Stream = int16_t;

// How a pool makes one stream wait for another before it hands over a block.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;

  // Work put on `waiter` from now on starts only when the work that is on `other` now is done: an event recorded on
  // `other`, waited for by `waiter`.
  virtual void wait(Stream waiter, Stream other) = 0;

  // Blocks until all work on all streams is done; before pages are taken from under it.
  virtual void synchronize() = 0;
};

// The host runs in program order: nothing to wait for.
class HostOrder : public StreamOrder {
 public:
  void wait(Stream /*waiter*/, Stream /*other*/) override {}
  void synchronize() override {}
};

}  // namespace plimsoll

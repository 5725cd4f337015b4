// Streams are queues of work on a device: work on one runs in order, work on two does not, unless an event orders it.
// Kernels only enqueue; the host waits where it reads results (synchronize). The CPU's stream runs all work at once.
//
// A stream is used by one host thread at a time. It must be synchronized before memory or work that it uses goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "plimsoll/base/error.h"

namespace plimsoll::device {

// Bad data that a kernel found in an operand. Kernels that cannot throw write it to memory that the host reads: the
// first that swaps `op` from 0 to its own number fills in the rest. All zero: nothing was found. Plain words, in this
// order, so that device code can declare the same.
struct FaultRecord {
  int32_t op = 0;       // index of the op in its program, plus 1
  int32_t operand = 0;  // index among the operands of the op
  int64_t value = 0;    // the element as it was found
  int64_t place = 0;    // index of the element in the operand
  int64_t least = 0;    // what it may be
  int64_t most = 0;
};

// What synchronize makes of a record. Executors turn it into an ArgumentError that names op and tensor.
class KernelFault : public Error {
 public:
  explicit KernelFault(const FaultRecord& found);
  const FaultRecord& found() const { return found_; }

 private:
  FaultRecord found_;
};

// A point in the work of a stream. Made by a device (Device::event), for streams of that device.
class Event {
 public:
  virtual ~Event() = default;
};

// Work that a stream has kept (Stream::keep).
class Kept {
 public:
  virtual ~Kept() = default;
  // Puts all of it on the stream again, at once.
  virtual void enqueue() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Work of the host, in order with the rest of the stream. An asynchronous stream keeps a pointer: `work` must be
  // there until the stream is synchronized, and is run once for each call. May throw what the work throws, or
  // synchronize does; work that comes after it on the stream is then left out.
  virtual void enqueue(const std::function<void()>& work) = 0;

  // Between any two of the host's and this device's addresses; they do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void zero(std::byte* at, int64_t bytes) = 0;

  // The event stands for all that is on this stream now; the last recording counts.
  virtual void record(Event& event) = 0;
  // What comes next on this stream starts after the event. One that was never recorded is done.
  virtual void wait(const Event& event) = 0;

  // Until all work is done. Throws the first error that it met, once: KernelFault, or what work of the host threw.
  virtual void synchronize() = 0;

  // Keeps what `work` puts on this stream instead of running it, for the same to be run many times with less of the
  // host. Null where that cannot be: then nothing was done. What the work uses must be there as long as what is kept.
  virtual std::unique_ptr<Kept> keep(const std::function<void()>& work);

  // The address that kernels write what they find to, or null where they throw.
  virtual FaultRecord* fault() = 0;

  // The driver's own handle (a CUstream), or null.
  virtual void* native() = 0;
};

}  // namespace plimsoll::device

// One rank's end of collectives between the memories of devices (cards by NCCL, cuda/card_ranks.h). They are put on
// streams as kernels are: a call returns before the work is done, and work that comes in a fixed order may be kept
// (Stream::keep). What Communicator says of order, types and sizes goes for them, too: every rank comes to the same
// ones in the same order.
//
// Each goes on beside `stream`, behind what is there already; its memory is its own until `finish` with the same
// result. To wait for it at once is to start and finish it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plimsoll/base/dtype.h"
#include "plimsoll/device/stream.h"

namespace plimsoll::device {

class StreamRanks {
 public:
  virtual ~StreamRanks() = default;

  // The sum over all ranks, in place. f32, f64, f16, bf16 and i64; ArgumentError for others, as from reduce_scatter.
  virtual void start_all_reduce(Stream& stream, DType dtype, std::byte* data, int64_t elements) = 0;
  // This rank's shard of the sum (shard_of), in `own`.
  virtual void start_reduce_scatter(Stream& stream, DType dtype, const std::byte* all, int64_t elements,
                                    std::byte* own) = 0;
  // Every rank's shard is where shard_of says in `all`; afterwards all of them are. Any dtype.
  virtual void start_all_gather(Stream& stream, DType dtype, std::byte* all, int64_t elements) = 0;
  // The bytes of rank `root`.
  virtual void start_broadcast(Stream& stream, std::byte* data, int64_t bytes, int root) = 0;

  // What comes next on the stream comes behind the last of those that were started with this result.
  virtual void finish(Stream& stream, const std::byte* result) = 0;

  // Of the device's memory, that is booked for it beside arenas.
  virtual int64_t device_bytes() const = 0;

  // How long a sum of so many floats takes, which all ranks ask for.
  virtual double seconds_of_sum(int64_t elements) = 0;
};

}  // namespace plimsoll::device

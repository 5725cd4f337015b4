// The ranks that this thread's run is one of, for kernels that wait for the others: those that are bound while it is
// set keep it. A thread of its own for each rank is how tests have several in one process.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "plimsoll/device/communicator.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// Null: this run is alone.
void use_communicator(std::shared_ptr<device::Communicator> ranks);
std::shared_ptr<device::Communicator> communicator();

// That of a run of so many ranks. UnsupportedError for another number.
std::shared_ptr<device::Communicator> communicator_of(int64_t ranks);

// Where the shards of a tensor are in a pack of several (program::pack_shards): `at` bytes after the first of each
// rank, which has `each`.
struct PackedShards {
  int64_t bytes = 0;  // of the whole tensor
  int64_t shard = 0;  // of a shard
  int64_t at = 0;
  int64_t each = 0;

  // Of x in `pack`, `at` elements after the first of each rank.
  PackedShards(const TensorDesc& x, int64_t ranks, int64_t at, const TensorDesc& pack);

  // Calls f(offset in the tensor, offset in the pack, bytes of it, bytes that are nobody's) for each rank.
  template <class F>
  void for_each_rank(int64_t ranks, const F& f) const {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t first = std::min(bytes, rank * shard);
      const int64_t count = std::min(bytes - first, shard);
      f(first, rank * each + at, count, shard - count);
    }
  }
};

// Of all operands of a pack_shards.
std::vector<PackedShards> packed_shards(const KernelCall& call);

// The same for a while.
class CommunicatorScope {
 public:
  explicit CommunicatorScope(std::shared_ptr<device::Communicator> ranks) : before_(communicator()) {
    use_communicator(std::move(ranks));
  }
  ~CommunicatorScope() { use_communicator(before_); }
  CommunicatorScope(const CommunicatorScope&) = delete;
  CommunicatorScope& operator=(const CommunicatorScope&) = delete;

 private:
  std::shared_ptr<device::Communicator> before_;
};

}  // namespace plimsoll::kernels

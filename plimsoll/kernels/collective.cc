#include "plimsoll/kernels/collective.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"

namespace plimsoll::kernels {
namespace {

std::shared_ptr<device::Communicator>& current() {
  thread_local std::shared_ptr<device::Communicator> ranks;
  return ranks;
}

}  // namespace

void use_communicator(std::shared_ptr<device::Communicator> ranks) { current() = std::move(ranks); }

std::shared_ptr<device::Communicator> communicator() { return current(); }

std::shared_ptr<device::Communicator> communicator_of(int64_t ranks) {
  std::shared_ptr<device::Communicator> found = communicator();
  const int64_t have = found ? found->ranks() : 1;
  if (found && have == ranks) return found;
  throw UnsupportedError(
      fmt::format("the program is for {} ranks, and this run has {}: start it with mpirun -n {}", ranks, have, ranks));
}

PackedShards::PackedShards(const TensorDesc& x, int64_t ranks, int64_t first, const TensorDesc& pack)
    : bytes(x.bytes()),
      shard(device::shard_elements(x.elements(), static_cast<int>(ranks)) * element_bytes(x.dtype)),
      at(first * element_bytes(x.dtype)),
      each(pack.elements() / ranks * element_bytes(x.dtype)) {}

std::vector<PackedShards> packed_shards(const KernelCall& call) {
  const int64_t ranks = call.op.integer("ranks");
  std::vector<PackedShards> xs;
  int64_t at = 0;
  for (const TensorDesc& x : call.inputs) {
    xs.emplace_back(x, ranks, at, call.out(0));
    at += device::shard_elements(x.elements(), static_cast<int>(ranks));
  }
  return xs;
}

}  // namespace plimsoll::kernels

// Collectives: the communicator of the run does the work, in the memory of operands and results.
#include "plimsoll/kernels/collective.h"

#include <fmt/format.h>

#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

using Ranks = std::shared_ptr<device::Communicator>;

Ranks ranks_of_run(int64_t ranks) {
  Ranks found = communicator();
  const int64_t have = found ? found->ranks() : 1;
  if (found && have == ranks) return found;
  throw UnsupportedError(
      fmt::format("the program is for {} ranks, and this run has {}: start it with mpirun -n {}", ranks, have, ranks));
}

// One operand or result.
struct Tensor {
  DType dtype = DType::f32;
  int64_t elements = 0;

  explicit Tensor(const TensorDesc& desc) : dtype(desc.dtype), elements(desc.elements()) {}
  int64_t bytes(int64_t count) const { return count * element_bytes(dtype); }
};

void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Copies the rank's shard, and fills up what is not of x.
void copy_shard(const Tensor& x, const device::Shard& own, const std::byte* from, const Tensor& shard, std::byte* to) {
  copy_bytes(to, from + x.bytes(own.first), x.bytes(own.size()));
  std::memset(to + x.bytes(own.size()), 0, static_cast<size_t>(x.bytes(shard.elements - own.size())));
}

Kernel all_reduce(const KernelCall& call) {
  return plain([ranks = call.op.integer("ranks"), x = Tensor(call.in(0))](const Memory& m) -> Task {
    return [=, group = ranks_of_run(ranks), from = m.inputs[0], to = m.outputs[0]] {
      copy_bytes(to, from, x.bytes(x.elements));
      group->all_reduce(x.dtype, to, x.elements);
    };
  });
}

Kernel reduce_scatter(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), x = Tensor(call.in(0)),
                     shard = Tensor(call.out(0))](const Memory& m) -> Task {
    const Ranks group = ranks_of_run(ranks);
    const device::Shard own = device::shard_of(x.elements, group->ranks(), group->rank());
    return [=, from = m.inputs[0], to = m.outputs[0], used_up = m.outputs[1]] {
      group->reduce_scatter(x.dtype, from, x.elements, to);
      std::memset(to + x.bytes(own.size()), 0, static_cast<size_t>(x.bytes(shard.elements - own.size())));
      copy_bytes(used_up, from, x.bytes(x.elements));
    };
  };
  return plain(bind);
}

Kernel own_shard(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), x = Tensor(call.in(0)),
                     shard = Tensor(call.out(0))](const Memory& m) -> Task {
    const Ranks group = ranks_of_run(ranks);
    const device::Shard own = device::shard_of(x.elements, group->ranks(), group->rank());
    return [=, from = m.inputs[0], to = m.outputs[0]] { copy_shard(x, own, from, shard, to); };
  };
  return plain(bind);
}

Kernel all_gather(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), x = Tensor(call.in(0))](const Memory& m) -> Task {
    const Ranks group = ranks_of_run(ranks);
    const device::Shard own = device::shard_of(x.elements, group->ranks(), group->rank());
    return [=, shard = m.inputs[1], to = m.outputs[0]] {
      copy_bytes(to + x.bytes(own.first), shard, x.bytes(own.size()));
      group->all_gather(x.dtype, to, x.elements);
    };
  };
  return plain(bind);
}

Kernel broadcast(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), root = static_cast<int>(call.op.integer("root")),
                     x = Tensor(call.in(0))](const Memory& m) -> Task {
    return [=, group = ranks_of_run(ranks), from = m.inputs[0], to = m.outputs[0]] {
      copy_bytes(to, from, x.bytes(x.elements));
      group->broadcast({to, static_cast<size_t>(x.bytes(x.elements))}, root);
    };
  };
  return plain(bind);
}

Kernel clone(const KernelCall& call) {
  return plain([x = Tensor(call.in(0))](const Memory& m) -> Task {
    return [=, from = m.inputs[0], to = m.outputs[0]] { copy_bytes(to, from, x.bytes(x.elements)); };
  });
}

}  // namespace

void register_collective_cpu(KernelTable& table) {
  table.add("all_reduce", {all_reduce});          // f16 and bf16 by way of f32: sums of many ranks need it
  table.add("reduce_scatter", {reduce_scatter});  // likewise
  table.add("own_shard", {own_shard, contiguous_only, {}, nullptr, any_dtype});
  table.add("all_gather", {all_gather, contiguous_only, {}, nullptr, any_dtype});
  table.add("broadcast", {broadcast, contiguous_only, {}, nullptr, any_dtype});
  table.add("clone", {clone, contiguous_only, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels

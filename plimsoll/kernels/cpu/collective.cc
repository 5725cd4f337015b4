// Collectives: the communicator of the run does the work, in the memory of operands and results.
#include "plimsoll/kernels/collective.h"

#include <cstring>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

using Ranks = std::shared_ptr<device::Communicator>;

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
    return [=, group = communicator_of(ranks), from = m.inputs[0], to = m.outputs[0]] {
      copy_bytes(to, from, x.bytes(x.elements));
      group->all_reduce(x.dtype, to, x.elements);
    };
  });
}

Kernel reduce_scatter(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), x = Tensor(call.in(0)),
                     shard = Tensor(call.out(0))](const Memory& m) -> Task {
    const Ranks group = communicator_of(ranks);
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
    const Ranks group = communicator_of(ranks);
    const device::Shard own = device::shard_of(x.elements, group->ranks(), group->rank());
    return [=, from = m.inputs[0], to = m.outputs[0]] { copy_shard(x, own, from, shard, to); };
  };
  return plain(bind);
}

Kernel all_gather(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), x = Tensor(call.in(0))](const Memory& m) -> Task {
    const Ranks group = communicator_of(ranks);
    const device::Shard own = device::shard_of(x.elements, group->ranks(), group->rank());
    return [=, shard = m.inputs[1], to = m.outputs[0]] {
      copy_bytes(to + x.bytes(own.first), shard, x.bytes(own.size()));
      group->all_gather(x.dtype, to, x.elements);
    };
  };
  return plain(bind);
}

Kernel all_reduce_start(const KernelCall& call) {
  return plain([ranks = call.op.integer("ranks"), x = Tensor(call.in(0))](const Memory& m) -> Task {
    return [=, group = communicator_of(ranks), data = m.outputs[0]] {
      group->start_all_reduce(x.dtype, data, x.elements);
    };
  });
}

Kernel reduce_scatter_start(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), x = Tensor(call.in(0)),
                     shard = Tensor(call.out(0))](const Memory& m) -> Task {
    const Ranks group = communicator_of(ranks);
    const device::Shard own = device::shard_of(x.elements, group->ranks(), group->rank());
    return [=, from = m.inputs[0], to = m.outputs[0]] {
      std::memset(to + x.bytes(own.size()), 0, static_cast<size_t>(x.bytes(shard.elements - own.size())));
      group->start_reduce_scatter(x.dtype, from, x.elements, to);
    };
  };
  return plain(bind);
}

// Of a shard into the place of the whole, which is result 0.
Kernel start_gather(const KernelCall& call, size_t shard_operand) {
  const auto bind = [ranks = call.op.integer("ranks"), whole = Tensor(call.out(0)),
                     shard_operand](const Memory& m) -> Task {
    const Ranks group = communicator_of(ranks);
    const device::Shard own = device::shard_of(whole.elements, group->ranks(), group->rank());
    return [=, shard = m.inputs[shard_operand], to = m.outputs[0]] {
      copy_bytes(to + whole.bytes(own.first), shard, whole.bytes(own.size()));
      group->start_all_gather(whole.dtype, to, whole.elements);
    };
  };
  return plain(bind);
}

Kernel all_gather_start(const KernelCall& call) { return start_gather(call, 1); }
Kernel gather_start(const KernelCall& call) { return start_gather(call, 0); }

Kernel collective_finish(const KernelCall& call) {
  return plain([ranks = call.op.integer("ranks")](const Memory& m) -> Task {
    return [group = communicator_of(ranks), result = m.outputs[0]] { group->finish(result); };
  });
}

Kernel pack_shards(const KernelCall& call) {
  const int64_t ranks = call.op.integer("ranks");
  const std::vector<PackedShards> xs = packed_shards(call);
  return plain([ranks, xs](const Memory& m) -> Task {
    return [ranks, xs, from = m.inputs, to = m.outputs[0]] {
      for (size_t i = 0; i < xs.size(); ++i) {
        xs[i].for_each_rank(ranks, [&](int64_t first, int64_t place, int64_t count, int64_t rest) {
          copy_bytes(to + place, from[i] + first, count);
          std::memset(to + place + count, 0, static_cast<size_t>(rest));
        });
      }
    };
  });
}

Kernel take_shards(const KernelCall& call) {
  const int64_t ranks = call.op.integer("ranks");
  const PackedShards x(call.in(0), ranks, call.op.integer("at"), call.in(1));
  return plain([ranks, x](const Memory& m) -> Task {
    return [ranks, x, pack = m.inputs[1], to = m.outputs[0]] {
      x.for_each_rank(ranks, [&](int64_t first, int64_t place, int64_t count, int64_t /*rest*/) {
        copy_bytes(to + first, pack + place, count);
      });
    };
  });
}

Kernel broadcast(const KernelCall& call) {
  const auto bind = [ranks = call.op.integer("ranks"), root = static_cast<int>(call.op.integer("root")),
                     x = Tensor(call.in(0))](const Memory& m) -> Task {
    return [=, group = communicator_of(ranks), from = m.inputs[0], to = m.outputs[0]] {
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
  table.add("all_reduce_start", {all_reduce_start, contiguous_only, {}, nullptr, any_dtype});
  table.add("reduce_scatter_start", {reduce_scatter_start, contiguous_only, {}, nullptr, any_dtype});
  table.add("all_gather_start", {all_gather_start, contiguous_only, {}, nullptr, any_dtype});
  table.add("gather_start", {gather_start, contiguous_only, {}, nullptr, any_dtype});
  table.add("collective_finish", {collective_finish, contiguous_only, {}, nullptr, any_dtype});
  table.add("pack_shards", {pack_shards, contiguous_only, {}, nullptr, any_dtype});
  table.add("take_shards", {take_shards, contiguous_only, {}, nullptr, any_dtype});
  table.add("broadcast", {broadcast, contiguous_only, {}, nullptr, any_dtype});
  table.add("clone", {clone, contiguous_only, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels

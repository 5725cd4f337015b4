// Collectives between cards: the communicator of the run puts them on streams, in the memory of operands and results.
#include "plimsoll/kernels/collective.h"

#include "plimsoll/base/error.h"
#include "plimsoll/device/stream_ranks.h"
#include "plimsoll/kernels/cuda/support/elements.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it
using device::Stream;
using device::StreamRanks;

// One rank, as it is known when an op is bound.
struct Rank {
  std::shared_ptr<device::Communicator> group;
  StreamRanks* on_streams = nullptr;

  device::Shard shard_of(int64_t elements) const { return device::shard_of(elements, group->ranks(), group->rank()); }
};

// A step of a rank: `make(rank, memory)` gives the task. On paper there is no run, and nothing to do.
template <class Make>
Step of_rank(const KernelCall& call, Make make) {
  return [ranks = call.op.integer("ranks"), make](const Memory& memory) -> Task {
    if (CompileOnly::architecture() != nullptr) return [](Stream&) {};
    const auto group = communicator_of(ranks);
    StreamRanks* const on_streams = group->on_streams();
    if (on_streams == nullptr)
      throw UnsupportedError("these ranks have no collectives between cards: they have no NCCL");
    return make(Rank{group, on_streams}, memory);
  };
}

// One operand or result, row-major.
struct Tensor {
  DType dtype = DType::f32;
  int64_t elements = 0;

  explicit Tensor(const TensorDesc& desc, DType as) : dtype(as), elements(desc.elements()) {}
  explicit Tensor(const TensorDesc& desc) : Tensor(desc, desc.dtype) {}
  int64_t bytes(int64_t count) const { return count * element_bytes(dtype); }
  int64_t bytes() const { return bytes(elements); }
};

enum class Waits : bool { no, yes };

Step sum(const KernelCall& call, const Tensor& x, At at, Waits waits) {
  return of_rank(call, [=](const Rank& rank, const Memory& memory) -> Task {
    return [=, data = address(at, memory)](Stream& stream) {
      rank.on_streams->start_all_reduce(stream, x.dtype, data, x.elements);
      if (waits == Waits::yes) rank.on_streams->finish(stream, data);
    };
  });
}

// The rank's shard of the sum of x, filled up with zeros.
Step sum_of_shard(const KernelCall& call, const Tensor& x, At all, const Tensor& shard, At own, Waits waits) {
  return of_rank(call, [=](const Rank& rank, const Memory& memory) -> Task {
    const int64_t taken = x.bytes(rank.shard_of(x.elements).size());
    return [=, from = address(all, memory), to = address(own, memory)](Stream& stream) {
      stream.zero(to + taken, shard.bytes() - taken);
      rank.on_streams->start_reduce_scatter(stream, x.dtype, from, x.elements, to);
      if (waits == Waits::yes) rank.on_streams->finish(stream, to);
    };
  });
}

Step gathered(const KernelCall& call, const Tensor& whole, At own, Waits waits) {
  return of_rank(call, [=](const Rank& rank, const Memory& memory) -> Task {
    const device::Shard part = rank.shard_of(whole.elements);
    return [=, from = address(own, memory), to = address(out(), memory)](Stream& stream) {
      std::byte* const place = to + whole.bytes(part.first);
      if (place != from) stream.copy(place, from, whole.bytes(part.size()));
      rank.on_streams->start_all_gather(stream, whole.dtype, to, whole.elements);
      if (waits == Waits::yes) rank.on_streams->finish(stream, to);
    };
  });
}

// Sums of many ranks are f32 where elements have fewer bits.
bool is_widened(const TensorDesc& x) { return x.dtype == DType::f16 || x.dtype == DType::bf16; }

Launch converted(At from, DType dtype, At to, DType as, int64_t elements) {
  const Shape line{elements};
  return element_launch({.value = "x0"}, {{from, contiguous(dtype, line)}}, contiguous(as, line), to, none());
}

Kernel all_reduce(const KernelCall& call) {
  const TensorDesc& x = call.in(0);
  Steps steps(call);
  const At from = steps.contiguous(0);
  if (is_widened(x)) {
    const At wide = steps.scratch(4 * x.elements());
    steps.launch(converted(from, x.dtype, wide, DType::f32, x.elements()));
    steps.add(sum(call, Tensor(x, DType::f32), wide, Waits::yes));
    steps.launch(converted(wide, DType::f32, out(), x.dtype, x.elements()));
    return steps.kernel();
  }
  steps.add(copy_bytes(out(), from, x.bytes()));
  steps.add(sum(call, Tensor(x), out(), Waits::yes));
  return steps.kernel();
}

Kernel reduce_scatter(const KernelCall& call) {
  const TensorDesc& x = call.in(0);
  const TensorDesc& shard = call.out(0);
  Steps steps(call);
  const At from = steps.contiguous(0);
  if (is_widened(x)) {
    const At wide = steps.scratch(4 * x.elements());
    const At own = steps.scratch(4 * shard.elements());
    steps.launch(converted(from, x.dtype, wide, DType::f32, x.elements()));
    steps.add(sum_of_shard(call, Tensor(x, DType::f32), wide, Tensor(shard, DType::f32), own, Waits::yes));
    steps.launch(converted(own, DType::f32, out(), x.dtype, shard.elements()));
  } else {
    steps.add(sum_of_shard(call, Tensor(x), from, Tensor(shard), out(), Waits::yes));
  }
  if (steps.wanted(1).where != At::Where::none) steps.add(copy_bytes(out(1), from, x.bytes()));
  return steps.kernel();
}

Kernel own_shard(const KernelCall& call) {
  Steps steps(call);
  const At from = steps.contiguous(0);
  steps.add(of_rank(
      call, [=, x = Tensor(call.in(0)), shard = Tensor(call.out())](const Rank& rank, const Memory& memory) -> Task {
        const device::Shard own = rank.shard_of(x.elements);
        return [=, part = address(from, memory) + x.bytes(own.first), to = address(out(), memory)](Stream& stream) {
          stream.copy(to, part, x.bytes(own.size()));
          stream.zero(to + x.bytes(own.size()), shard.bytes() - x.bytes(own.size()));
        };
      }));
  return steps.kernel();
}

Kernel all_gather(const KernelCall& call) {
  Steps steps(call);
  steps.add(gathered(call, Tensor(call.out()), steps.contiguous(1), Waits::yes));
  return steps.kernel();
}

// What is started is in the storage of its operand, as the op says.
Kernel all_reduce_start(const KernelCall& call) {
  Steps steps(call);
  steps.add(copy_bytes(out(), steps.contiguous(0), call.in(0).bytes()));
  steps.add(sum(call, Tensor(call.in(0)), out(), Waits::no));
  return steps.kernel();
}

// It reads the operand where that stays, while scratch is others' already.
Kernel reduce_scatter_start(const KernelCall& call) {
  Steps steps(call);
  At from = steps.contiguous(0);
  if (steps.wanted(1).where != At::Where::none) {
    steps.add(copy_bytes(out(1), from, call.in(0).bytes()));
    from = out(1);
  }
  steps.add(sum_of_shard(call, Tensor(call.in(0)), from, Tensor(call.out(0)), out(0), Waits::no));
  return steps.kernel();
}

Kernel all_gather_start(const KernelCall& call) {
  Steps steps(call);
  steps.add(gathered(call, Tensor(call.out()), steps.contiguous(1), Waits::no));
  return steps.kernel();
}

Kernel gather_start(const KernelCall& call) {
  Steps steps(call);
  steps.add(gathered(call, Tensor(call.out()), steps.contiguous(0), Waits::no));
  return steps.kernel();
}

Kernel collective_finish(const KernelCall& call) {
  return kernel_of({of_rank(call, [](const Rank& rank, const Memory& memory) -> Task {
    return [=, result = address(out(), memory)](Stream& stream) { rank.on_streams->finish(stream, result); };
  })});
}

Kernel broadcast(const KernelCall& call) {
  Steps steps(call);
  steps.add(copy_bytes(out(), steps.contiguous(0), call.in(0).bytes()));
  const auto root = static_cast<int>(call.op.integer("root"));
  steps.add(of_rank(call, [=, bytes = call.in(0).bytes()](const Rank& rank, const Memory& memory) -> Task {
    return [=, data = address(out(), memory)](Stream& stream) {
      rank.on_streams->start_broadcast(stream, data, bytes, root);
      rank.on_streams->finish(stream, data);
    };
  }));
  return steps.kernel();
}

// Shards of x to or from their places in the pack. Few of them are copies, many are one launch.
constexpr int64_t kFewCopies = 4;

void move_shards(Steps& steps, const PackedShards& shards, int64_t ranks, DType dtype, At x, At pack, bool into_pack) {
  const auto move = [&](At in_x, At in_pack, int64_t bytes) {
    steps.add(into_pack ? copy_bytes(in_pack, in_x, bytes) : copy_bytes(in_x, in_pack, bytes));
  };
  const int64_t whole = shards.shard == 0 ? 0 : shards.bytes / shards.shard;  // shards that no rank has a part of alone
  const bool are_few = whole <= kFewCopies;
  if (!are_few) {
    const int64_t size = element_bytes(dtype);
    const Walk line = straight(whole * shards.shard / size);
    Walk spread;
    spread.add(whole, shards.each / size);
    spread.add(shards.shard / size, 1);
    const At there = pack + shards.at;
    steps.add(into_pack ? copy_step(dtype, x, line, there, spread) : copy_step(dtype, there, spread, x, line));
  }
  int64_t rank = 0;
  shards.for_each_rank(ranks, [&](int64_t first, int64_t place, int64_t count, int64_t rest) {
    if ((are_few || rank++ >= whole) && count > 0) move(x + first, pack + place, count);
    if (into_pack && rest > 0) steps.add(fill_bytes(pack + (place + count), 0, rest));
  });
}

Kernel pack_shards(const KernelCall& call) {
  const int64_t ranks = call.op.integer("ranks");
  const std::vector<PackedShards> xs = packed_shards(call);
  Steps steps(call);
  for (int i = 0; i < call.arity(); ++i) {
    move_shards(steps, xs[static_cast<size_t>(i)], ranks, call.out().dtype, steps.contiguous(i), out(), true);
  }
  return steps.kernel();
}

Kernel take_shards(const KernelCall& call) {
  const int64_t ranks = call.op.integer("ranks");
  const PackedShards x(call.in(0), ranks, call.op.integer("at"), call.in(1));
  Steps steps(call);
  move_shards(steps, x, ranks, call.out().dtype, out(), steps.contiguous(1), false);
  return steps.kernel();
}

Kernel clone(const KernelCall& call) {
  Steps steps(call);
  steps.add(copy_bytes(out(), steps.contiguous(0), call.in(0).bytes()));
  return steps.kernel();
}

}  // namespace

void register_collective_cuda(KernelTable& table) {
  table.add("all_reduce", {all_reduce, any_layout});
  table.add("reduce_scatter", {reduce_scatter, any_layout});
  table.add("own_shard", {own_shard, any_layout});
  table.add("all_gather", {all_gather, any_layout});
  table.add("all_reduce_start", {all_reduce_start, any_layout});
  table.add("reduce_scatter_start", {reduce_scatter_start, any_layout});
  table.add("all_gather_start", {all_gather_start, any_layout});
  table.add("gather_start", {gather_start, any_layout});
  table.add("collective_finish", {collective_finish, any_layout});
  table.add("pack_shards", {pack_shards, any_layout});
  table.add("take_shards", {take_shards, any_layout});
  table.add("broadcast", {broadcast, any_layout});
  table.add("clone", {clone, any_layout});
}

}  // namespace plimsoll::kernels

// From one layout to another, by oneDNN.
#include "plimsoll/kernels/cpu/support/copies.h"
#include "plimsoll/kernels/cpu/support/dispatch.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// An element to a byte, as the indices of a pool.
template <class Element>
Kernel reorder_blocks(const KernelCall& call) {
  const Shape& shape = call.out().shape;
  const int64_t groups = shape[0] * shape[1] / kChannelBlock;
  const int64_t plane = shape.elements() / (shape[0] * shape[1]);
  const bool into = call.out().blocked;
  return plain([=, threads = call.threads](const Memory& m) -> Task {
    return [=, from = m.in<Element>(0), to = m.out<Element>()] {
      parallel(threads, groups, kGrain / (plane * kChannelBlock) + 1, [=](int, int64_t begin, int64_t end) {
        for (int64_t at = begin * plane * kChannelBlock; at < end * plane * kChannelBlock; ++at) {
          const int64_t group = at / (plane * kChannelBlock);
          const int64_t inside = at % (plane * kChannelBlock);
          const int64_t other = group * plane * kChannelBlock + inside % kChannelBlock * plane + inside / kChannelBlock;
          to[into ? at : other] = from[into ? other : at];
        }
      });
    };
  });
}

// oneDNN has no f16 here; of elements that only move, the size is all that counts.
TensorDesc moved(TensorDesc tensor) {
  if (tensor.dtype == DType::f16) tensor.dtype = DType::bf16;
  return tensor;
}

Kernel reorder(const KernelCall& call) {
  if (call.in(0).blocked == call.out().blocked) {
    return plain([from = call.in(0), to = call.out(), threads = call.threads](const Memory& m) -> Task {
      return [=, x = m.in<std::byte>(0), y = m.out<std::byte>()] { copy_strided(from, x, to, y, threads); };
    });
  }
  if (call.out().dtype != DType::f32 && !is_low_precision(call.out().dtype)) {
    return for_size(call.out().dtype, [&](auto zero) { return reorder_blocks<decltype(zero)>(call); });
  }
  return reorder_kernel(desc_of(moved(call.in(0))), desc_of(moved(call.out())));
}

}  // namespace

void register_layout_cpu(KernelTable& table) {
  table.add("reorder",
            {reorder, any_layout, {.rule = Blocking::Rule::each, .inputs = {0}, .outputs = {0}}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels

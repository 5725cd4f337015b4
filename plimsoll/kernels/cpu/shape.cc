// Copies, for uses of these ops that cannot be views.
#include "plimsoll/kernels/cpu/support/copies.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// The operand in place, but in the order of the result's elements.
Kernel copy_as(const KernelCall& call, const TensorDesc& source) {
  return plain([source, target = call.out(), threads = call.threads](const Memory& m) -> Task {
    return [=, from = m.in<std::byte>(0), to = m.out<std::byte>()] { copy_strided(source, from, target, to, threads); };
  });
}

Kernel copy_all(const KernelCall& call) { return copy_as(call, call.in(0)); }

// The elements of a reshape keep their order, so the operand is copied in its own shape.
Kernel reshape(const KernelCall& call) {
  return plain([source = call.in(0), threads = call.threads](const Memory& m) -> Task {
    return [=, from = m.in<std::byte>(0), to = m.out<std::byte>()] { copy_to_contiguous(source, from, to, threads); };
  });
}

Kernel transpose(const KernelCall& call) {
  const program::Dims& axes = call.op.dims("axes");
  TensorDesc source = call.out();
  for (int i = 0; i < axes.rank(); ++i) {
    source.strides[static_cast<size_t>(i)] = call.in(0).stride(static_cast<int>(axes[i].constant()));
  }
  return copy_as(call, source);
}

Kernel expand(const KernelCall& call) {
  TensorDesc source = call.out();
  const int missing = source.shape.rank() - call.in(0).shape.rank();
  for (int axis = 0; axis < source.shape.rank(); ++axis) {
    const bool repeats = axis < missing || call.in(0).shape[axis - missing] != source.shape[axis];
    source.strides[static_cast<size_t>(axis)] = repeats ? 0 : call.in(0).stride(axis - missing);
  }
  return copy_as(call, source);
}

}  // namespace

void register_shape_cpu(KernelTable& table) {
  table.add("identity", {copy_all, any_layout, {}, nullptr, any_dtype});
  table.add("reshape", {reshape, any_layout, {}, nullptr, any_dtype});
  table.add("transpose", {transpose, any_layout, {}, nullptr, any_dtype});
  table.add("expand", {expand, any_layout, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels

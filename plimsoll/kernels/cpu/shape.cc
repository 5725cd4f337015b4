// Copies, for uses of these ops that cannot be views.
#include "plimsoll/kernels/cpu/support/copies.h"
#include "plimsoll/kernels/cut.h"

namespace plimsoll::kernels {
namespace {

// The operand as it lies, but in the order of the result's elements.
Kernel copy_as(const Use& use, const Tensor& source) {
  return plain([source, target = use.out(), threads = use.threads](const Memory& m) -> Task {
    return [=, from = m.in<std::byte>(0), to = m.out<std::byte>()] { copy_strided(source, from, target, to, threads); };
  });
}

Kernel copy_all(const Use& use) { return copy_as(use, use.in(0)); }

// The elements of a reshape keep their order, so the operand is copied in its own shape.
Kernel reshape(const Use& use) {
  return plain([source = use.in(0), threads = use.threads](const Memory& m) -> Task {
    return [=, from = m.in<std::byte>(0), to = m.out<std::byte>()] { copy_to_contiguous(source, from, to, threads); };
  });
}

Kernel transpose(const Use& use) {
  const program::Dims& axes = use.call.dims("axes");
  Tensor source = use.out();
  for (int i = 0; i < axes.rank(); ++i) {
    source.strides[static_cast<size_t>(i)] = use.in(0).stride(static_cast<int>(axes[i].constant()));
  }
  return copy_as(use, source);
}

Kernel expand(const Use& use) {
  Tensor source = use.out();
  const int missing = source.shape.rank() - use.in(0).shape.rank();
  for (int axis = 0; axis < source.shape.rank(); ++axis) {
    const bool repeats = axis < missing || use.in(0).shape[axis - missing] != source.shape[axis];
    source.strides[static_cast<size_t>(axis)] = repeats ? 0 : use.in(0).stride(axis - missing);
  }
  return copy_as(use, source);
}

}  // namespace

void register_shape_cpu(KernelTable& table) {
  table.add("identity", {copy_all, any_layout, {}, nullptr, any_dtype});
  table.add("reshape", {reshape, any_layout, {}, nullptr, any_dtype});
  table.add("transpose", {transpose, any_layout, {}, nullptr, any_dtype});
  table.add("expand", {expand, any_layout, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels

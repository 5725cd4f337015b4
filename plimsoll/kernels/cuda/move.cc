// Ops that only move elements.
#include "plimsoll/kernels/cuda/support/elements.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

Kernel copied(const TensorDesc& from, DType dtype, int64_t offset = 0) {
  return kernel_of(
      {copy_step(dtype, in(0) + offset * element_bytes(dtype), walk_of(from), out(), straight(from.elements()))});
}

Kernel identity(const KernelCall& call) { return copied(call.in(0), call.in(0).dtype); }

// The operand as another shape shows it, with strides of its own.
Kernel transpose(const KernelCall& call) {
  TensorDesc from = call.in(0);
  const program::Dims& axes = call.op.dims("axes");
  from.shape = call.out().shape;
  for (int i = 0; i < axes.rank(); ++i) {
    from.strides[static_cast<size_t>(i)] = call.in(0).stride(static_cast<int>(axes[i].constant()));
  }
  return copied(from, from.dtype);
}

Kernel expand(const KernelCall& call) {
  return kernel_of({copy_step(call.in(0).dtype, in(0), walk_of(call.in(0), call.out().shape), out(),
                              straight(call.out().elements()))});
}

// Element i of the slice is element start + i * step of the whole.
struct Sliced {
  TensorDesc tensor;
  int64_t offset = 0;
};

Sliced sliced(const TensorDesc& whole, const Shape& shape, const program::OpCall& op_call) {
  Sliced part{whole, 0};
  part.tensor.shape = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    part.offset += op_call.dims("starts")[axis].constant() * whole.stride(axis);
    part.tensor.strides[static_cast<size_t>(axis)] = op_call.dims("steps")[axis].constant() * whole.stride(axis);
  }
  return part;
}

Kernel slice(const KernelCall& call) {
  const Sliced part = sliced(call.in(0), call.out().shape, call.op);
  return copied(part.tensor, call.in(0).dtype, part.offset);
}

Kernel slice_backward(const KernelCall& call) {
  const Sliced part = sliced(call.out(), call.in(0).shape, call.op);
  const DType dtype = call.out().dtype;
  Steps steps(call);
  steps.add(fill_bytes(out(), 0, call.out().bytes()));
  if (call.in(0).elements() > 0) {
    steps.add(
        copy_step(dtype, in(0), walk_of(call.in(0)), out() + part.offset * element_bytes(dtype), walk_of(part.tensor)));
  }
  return steps.kernel();
}

Kernel split(const KernelCall& call) {
  const int axis = call.op.axis("axis");
  Steps steps(call);
  int64_t before = 0;
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    TensorDesc piece = call.in(0);
    piece.shape = call.outputs[k].shape;
    if (call.requested[k]) {
      const int64_t offset = before * call.in(0).stride(axis) * element_bytes(piece.dtype);
      steps.add(
          copy_step(piece.dtype, in(0) + offset, walk_of(piece), out(static_cast<int>(k)), straight(piece.elements())));
    }
    before += call.outputs[k].shape[axis];
  }
  return steps.kernel();
}

Kernel concat(const KernelCall& call) {
  const int axis = call.op.axis("axis");
  Steps steps(call);
  int64_t before = 0;
  for (int i = 0; i < call.arity(); ++i) {
    TensorDesc piece = call.out();
    piece.shape = call.in(i).shape;
    if (piece.elements() > 0) {
      const int64_t offset = before * call.out().stride(axis) * element_bytes(piece.dtype);
      steps.add(copy_step(piece.dtype, in(i), walk_of(call.in(i)), out() + offset, walk_of(piece)));
    }
    before += call.in(i).shape[axis];
  }
  return steps.kernel();
}

// Between row-major order and channels last.
Kernel reorder(const KernelCall& call) {
  const TensorDesc& x = call.in(0);
  Steps steps(call);
  if (x.is_channels_last() == call.out().is_channels_last()) {
    steps.add(copy_bytes(out(), steps.contiguous(0), x.bytes()));
    return steps.kernel();
  }
  const int64_t channels = x.shape[1];
  const int64_t plane = x.elements() / (x.shape[0] * channels);
  steps.launch(transpose_launch(x.dtype, steps.contiguous(0), out(), x.shape[0],
                                x.is_channels_last() ? plane : channels, x.is_channels_last() ? channels : plane));
  return steps.kernel();
}

Kernel fill(const KernelCall& call) {
  Launch launch{"fill"};
  const DType dtype = call.out().dtype;
  const char* value = is_floating(dtype) ? "value" : dtype == DType::boolean ? "value != 0" : "(i64)floor(value)";
  launch.defines.set("OUT", dtype).set("VALUE", value);
  launch.grid = {std::min<int64_t>(blocks_for(call.out().elements()), 1 << 16)};
  launch.arguments = Arguments(call.out().elements(), out(), call.op.real("value"));
  return kernel_of({step(launch)});
}

Blocking each() {
  Blocking blocking;
  blocking.rule = Blocking::Rule::each;
  blocking.inputs = {0};
  blocking.outputs = {0};
  return blocking;
}

}  // namespace

void register_move_cuda(KernelTable& table) {
  table.add("identity", {identity, any_layout});
  table.add("reshape", {identity, any_layout});
  table.add("transpose", {transpose, any_layout});
  table.add("expand", {expand, any_layout});
  table.add("slice", {slice, any_layout});
  table.add("slice_backward", {slice_backward, any_layout});
  table.add("split", {split, any_layout});
  table.add("concat", {concat, any_layout});
  table.add("reorder", {reorder, any_layout, each()});
  table.add("fill", {fill, any_layout});
}

}  // namespace plimsoll::kernels

#include "plimsoll/kernels/kernel.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"

namespace plimsoll::kernels {

bool TensorDesc::is_contiguous() const {
  int64_t expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && stride(axis) != expected) return elements() == 0;
    expected *= shape[axis];
  }
  return true;
}

TensorDesc contiguous(DType dtype, const Shape& shape) {
  TensorDesc tensor{dtype, shape, {}};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    tensor.strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return tensor;
}

void KernelCall::unsupported(std::string_view can) const {
  std::string operands;
  for (int i = 0; i < arity(); ++i) {
    operands += fmt::format("{}{} is {}", i == 0 ? "" : ", ", op.def.input_name(i), op.input(i).text());
  }
  throw UnsupportedError(fmt::format("{} %{}: {}; {}", op.def.name, op.label, operands, can));
}

void KernelCall::require_f32(int i) const {
  if (in(i).dtype != DType::f32)
    unsupported("this kernel computes in f32, f16 and bf16: ask for one of these as --precision");
}

Kernel plain(std::function<Task(const Memory&)> bind) { return {0, std::move(bind)}; }

bool contiguous_only(const TensorDesc& operand) { return operand.is_contiguous(); }
bool any_layout(const TensorDesc& /*operand*/) { return true; }

void KernelTable::add(std::string_view op, KernelDef def) {
  program::op_table().get(op);  // ArgumentError for one that is not
  if (!by_op_.emplace(op, std::move(def)).second) throw ArgumentError(fmt::format("op {} has two kernels", op));
}

const KernelDef* KernelTable::find(std::string_view op) const {
  const auto found = by_op_.find(std::string(op));
  return found == by_op_.end() ? nullptr : &found->second;
}

}  // namespace plimsoll::kernels

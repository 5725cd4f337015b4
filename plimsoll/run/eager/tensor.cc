#include "plimsoll/run/eager/tensor.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/copy.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"
#include "plimsoll/run/eager/context.h"

namespace plimsoll::eager {

using program::Dims;
using program::NamedAttribute;
using program::Value;

Tensor& Tensor::require_grad() {
  if (!is_floating(dtype())) {
    throw ArgumentError(fmt::format("{} cannot require a gradient: only floating tensors have one", spec().text()));
  }
  state_->requires_grad = true;
  return *this;
}

Tensor Tensor::grad() const {
  if (!state_->gradient) return {};
  return {*context_, std::make_shared<TensorState>(TensorState{.data = state_->gradient})};
}

Tensor Tensor::detach() const { return {*context_, std::make_shared<TensorState>(TensorState{.data = state_->data})}; }

void Tensor::backward(const BackwardOptions& options) const {
  if (elements() != 1) {
    throw ArgumentError(fmt::format("backward of {}: expected one element, or a seed", spec().text()));
  }
  backward(context_->full(spec(), 1), options);
}

void Tensor::backward(const Tensor& seed, const BackwardOptions& options) const {
  context_->backward(*this, seed, options);
}

std::byte* Tensor::checked_data(size_t element_size) const {
  if (element_bytes(dtype()) != static_cast<int64_t>(element_size)) {
    throw ArgumentError(fmt::format("{}: its elements are not of {} bytes", spec().text(), element_size));
  }
  if (!is_contiguous()) throw ArgumentError(fmt::format("{} is a view that is not contiguous", spec().text()));
  return state_->data.at();
}

void Tensor::copy_to(std::byte* to, size_t element_size) const {
  if (element_bytes(dtype()) != static_cast<int64_t>(element_size)) {
    throw ArgumentError(fmt::format("{}: its elements are not of {} bytes", spec().text(), element_size));
  }
  if (elements() > 0) kernels::copy_to_contiguous(desc(), state_->data.at(), to);
}

Tensor Tensor::relu() const { return apply("relu", {*this}); }
Tensor Tensor::gelu() const { return apply("gelu", {*this}); }
Tensor Tensor::silu() const { return apply("silu", {*this}); }
Tensor Tensor::sigmoid() const { return apply("sigmoid", {*this}); }
Tensor Tensor::tanh() const { return apply("tanh", {*this}); }
Tensor Tensor::exp() const { return apply("exp", {*this}); }
Tensor Tensor::log() const { return apply("log", {*this}); }
Tensor Tensor::sqrt() const { return apply("sqrt", {*this}); }
Tensor Tensor::square() const { return apply("square", {*this}); }
Tensor Tensor::abs() const { return apply("abs", {*this}); }
Tensor Tensor::softmax(int axis) const { return apply("softmax", {*this}, {{"axis", axis}}); }
Tensor Tensor::log_softmax(int axis) const { return apply("log_softmax", {*this}, {{"axis", axis}}); }
Tensor Tensor::sum(const Dims& axes, bool keepdims) const {
  return apply("sum", {*this}, {{"axes", axes}, {"keepdims", keepdims}});
}
Tensor Tensor::mean(const Dims& axes, bool keepdims) const {
  return apply("mean", {*this}, {{"axes", axes}, {"keepdims", keepdims}});
}
Tensor Tensor::max(const Dims& axes, bool keepdims) const {
  return apply("max", {*this}, {{"axes", axes}, {"keepdims", keepdims}});
}
Tensor Tensor::reshape(const Dims& shape) const { return call(program::reshape, *this, shape); }
Tensor Tensor::transpose(const Dims& axes) const { return apply("transpose", {*this}, {{"axes", axes}}); }
Tensor Tensor::expand(const Dims& shape) const { return apply("expand", {*this}, {{"shape", shape}}); }
Tensor Tensor::slice(int axis, int64_t start, std::optional<int64_t> end, int64_t step) const {
  const program::Range range{axis, start, end ? std::optional<program::Dim>(*end) : std::nullopt, step};
  return call([&](program::Builder& b, Value x) { return program::slice(b, x, range); }, *this);
}
Tensor Tensor::cast(DType dtype) const { return apply("cast", {*this}, {{"dtype", dtype}}); }
Tensor Tensor::contiguous() const {
  return is_contiguous() ? *this : apply("concat", {*this}, {{"axis", 0}});  // of one: a copy, for all dtypes
}
Tensor Tensor::matmul(const Tensor& other) const { return apply("matmul", {*this, other}); }

std::vector<Tensor> apply_all(std::string_view op, std::span<const Tensor> operands,
                              std::initializer_list<NamedAttribute> attributes) {
  const program::OpDef& def = program::op_table().get(op);
  if (operands.empty() || !operands[0]) throw ArgumentError(fmt::format("{}: operand 0 is no tensor", op));
  return operands[0].context().apply(
      def, program::complete_attributes(def, std::span(attributes.begin(), attributes.size())), operands);
}

Tensor apply(std::string_view op, std::initializer_list<Tensor> operands,
             std::initializer_list<NamedAttribute> attributes) {
  return apply_all(op, std::span(operands.begin(), operands.size()), attributes)[0];
}

Tensor operator+(const Tensor& x, const Tensor& z) { return apply("add", {x, z}); }
Tensor operator-(const Tensor& x, const Tensor& z) { return apply("sub", {x, z}); }
Tensor operator*(const Tensor& x, const Tensor& z) { return apply("mul", {x, z}); }
Tensor operator/(const Tensor& x, const Tensor& z) { return apply("div", {x, z}); }
Tensor operator-(const Tensor& x) { return apply("neg", {x}); }
Tensor operator+(const Tensor& x, double shift) { return apply("affine", {x}, {{"shift", shift}}); }
Tensor operator-(const Tensor& x, double shift) { return x + -shift; }
Tensor operator*(const Tensor& x, double scale) { return apply("affine", {x}, {{"scale", scale}}); }
Tensor operator/(const Tensor& x, double divisor) { return x * (1 / divisor); }

Value Sketch::operand(const Tensor& tensor) {
  if (!tensor) return {};
  operands_.push_back(tensor);
  return builder_.input(fmt::format("operand.{}", operands_.size()), tensor.state()->data.type());
}

Tensor Sketch::run(Value result) {
  if (operands_.empty()) throw ArgumentError("a function of no tensors: make one with Context::full");
  const program::Program& program = builder_.program();
  std::vector<Tensor> values(program.values.size());
  for (size_t i = 0; i < operands_.size(); ++i) values[static_cast<size_t>(program.inputs[i].index)] = operands_[i];
  for (const program::Op& op : program.ops) {
    std::vector<Tensor> inputs;
    for (const Value value : op.inputs) inputs.push_back(values[static_cast<size_t>(value.index)]);
    std::vector<bool> asked;
    for (const Value value : op.outputs) asked.push_back(bool(value));
    const std::vector<Tensor> made = operands_[0].context().apply(*op.def, op.attributes, inputs, asked);
    for (size_t k = 0; k < made.size(); ++k) {
      if (op.outputs[k]) values[static_cast<size_t>(op.outputs[k].index)] = made[k];
    }
  }
  return values[static_cast<size_t>(result.index)];
}

}  // namespace plimsoll::eager

#include "plimsoll/program/ops/factored.h"

namespace plimsoll::program {
namespace {

void require_rest(const OpCall& call, int step) {
  call.require_floating(0);
  call.require_same(0, 1);
  const Type& counter = call.input(step);
  call.require(is_integer(counter.dtype) && counter.shape.empty(), "step must be one integer");
  for (int i = step + 1; i < call.arity(); ++i) {
    call.require_floating(i);
    call.require_rank(i, 0);
  }
}

std::vector<Type> infer_matrix(const OpCall& call) {
  require_rest(call, 4);
  call.require(call.shape(0).rank() >= 2, "w must have two dimensions at least");
  call.require_floating(2);
  call.require_floating(3);
  call.require(call.shape(2) == rows_of(call.shape(0)), "rows must have one for each row of w");
  call.require(call.shape(3) == columns_of(call.shape(0)), "columns must have one for each column of w");
  return {call.input(0), call.input(2), call.input(3)};
}

std::vector<Type> infer_vector(const OpCall& call) {
  require_rest(call, 3);
  call.require_same(0, 2);
  return {call.input(0), call.input(2)};
}

Value emit_factored(Builder& b, std::string_view op, std::vector<Value> operands, const FactoredOptions& options) {
  if (options.scale) operands.push_back(options.scale);
  const std::vector<NamedAttribute> attributes = {{"weight_decay", options.weight_decay}};
  return b.emit(op, operands, attributes);
}

}  // namespace

Dims rows_of(const Dims& shape) { return {shape[0]}; }

Dims columns_of(const Dims& shape) {
  Dim columns = 1;
  for (int i = 1; i < shape.rank(); ++i) columns = columns * shape[i];
  return {columns};
}

Value adafactor(Builder& b, Value w, Value dw, FactoredSquares squares, Value step, Value rate,
                FactoredOptions options) {
  return emit_factored(b, "adafactor", {w, dw, squares.rows, squares.columns, step, rate}, options);
}

Value adafactor_vector(Builder& b, Value w, Value dw, Value square, Value step, Value rate, FactoredOptions options) {
  return emit_factored(b, "adafactor_vector", {w, dw, square, step, rate}, options);
}

void register_factored(OpTable& table) {
  const std::vector<AttributeSpec> attributes = {{"weight_decay", AttributeKind::real, Attribute(0.0)}};
  const auto flops = [](const OpCall& call) { return Dim(12) * call.shape(0).elements(); };
  table.add({.name = "adafactor",
             .inputs = {"w", "dw", "rows", "columns", "step", "rate", "scale?"},
             .outputs = {"w_new", "rows_new", "columns_new"},
             .attributes = attributes,
             .infer = infer_matrix,
             .overwrites = {{.output = 0, .input = 0}, {.output = 1, .input = 2}, {.output = 2, .input = 3}},
             .flops = flops});
  table.add({.name = "adafactor_vector",
             .inputs = {"w", "dw", "square", "step", "rate", "scale?"},
             .outputs = {"w_new", "square_new"},
             .attributes = attributes,
             .infer = infer_vector,
             .overwrites = {{.output = 0, .input = 0}, {.output = 1, .input = 2}},
             .flops = flops});
}

}  // namespace plimsoll::program

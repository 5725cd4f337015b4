#include "plimsoll/program/ops/linear.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/reduce.h"

namespace plimsoll::program {
namespace {

Type with_last(Type type, Dim last) {
  type.shape[type.shape.rank() - 1] = last;
  return type;
}

// Operand i is rows of features, floating, and of the dtype of the other operand.
void require_rows(const OpCall& call, int i) {
  call.require_floating(i);
  call.require_same_dtype(0, 1);
  if (call.shape(i).empty()) call.reject(fmt::format("{} must have at least one dimension", call.def.input_name(i)));
}

std::vector<Type> infer_linear(const OpCall& call) {
  require_rows(call, 0);
  call.require_rank(1, 2);
  const Dims& w = call.shape(1);
  if (call.shape(0).back() != w[1]) {
    call.reject(
        fmt::format("the last dimension of x ({}) must be that of w ({})", call.shape(0).back().text(), w[1].text()));
  }
  const bool fits = call.arity() < 3 || call.input(2) == Type{call.input(0).dtype, {w[0]}};
  call.require(fits, "bias must have w's dtype and as many elements as w has rows");
  return {with_last(call.input(0), w[0])};
}

std::vector<Type> infer_backward_input(const OpCall& call) {
  require_rows(call, 0);
  call.require_rank(1, 2);
  call.require(call.shape(0).back() == call.shape(1)[0], "the last dimension of dy must be as many as the rows of w");
  return {with_last(call.input(0), call.shape(1)[1])};
}

std::vector<Type> infer_backward_weights(const OpCall& call) {
  require_rows(call, 0);
  require_rows(call, 1);
  const Dim in = call.shape(1).back();
  const Dim out = call.shape(0).back();
  call.require(with_last(call.input(0), in) == call.input(1), "dy and x must agree in all dimensions but the last");
  const DType dtype = call.input(0).dtype;
  return {{dtype, {out, in}}, {dtype, {out}}};
}

// The gradients of w and the bias first: they are the last to read x, which is then free before dx is made.
void differentiate_linear(Gradient& g) {
  const bool wants_bias = g.arity() > 2 && g.wants(2);
  if (g.wants(1)) g.set(1, g.b.emit("linear_backward_weights", {g.of_output(), g.input(0)}));
  if (wants_bias && g.wants(1)) g.set(2, g.b.optional_output(g.b.program().ops.size() - 1, 1));
  if (wants_bias && !g.wants(1)) g.set(2, sum_to(g.b, g.of_output(), g.b.shape(g.input(2))));
  if (g.wants(0)) g.set(0, g.b.emit("linear_backward_input", {g.of_output(), g.input(1)}));
}

// A multiplication and an addition for each element of each row and each of the features on the other side.
Dim product_flops(const Type& rows, Dim other_side) { return Dim(2) * rows.shape.elements() * other_side; }

}  // namespace

Value linear(Builder& b, Value x, Value w, Value bias) {
  return bias ? b.emit("linear", {x, w, bias}) : b.emit("linear", {x, w});
}

void register_linear(OpTable& table) {
  table.add({.name = "linear",
             .inputs = {"x", "w", "bias?"},
             .infer = infer_linear,
             .gradient = differentiate_linear,
             .flops = [](const OpCall& call) { return product_flops(call.input(0), call.shape(1)[0]); },
             .traits = {.quantized = [](const OpCall&) { return std::optional(QuantizedForm{.op = "linear_i8"}); }}});
  table.add({.name = "linear_backward_input",
             .inputs = {"dy", "w"},
             .infer = infer_backward_input,
             .flops = [](const OpCall& call) { return product_flops(call.input(0), call.shape(1)[1]); }});
  table.add({.name = "linear_backward_weights",
             .inputs = {"dy", "x"},
             .outputs = {"dw", "dbias?"},
             .infer = infer_backward_weights,
             .flops = [](const OpCall& call) { return product_flops(call.input(0), call.shape(1).back()); },
             .traits = {.accumulate = "linear_accumulate"}});
}

}  // namespace plimsoll::program

#include "plimsoll/program/ops/elementwise_unary.h"

#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_floating(const Call& call) {
  call.require_floating(0);
  return {call.input(0)};
}

// One bit for each element, eight to a byte, the first in the lowest bit.
Type bit_mask(const Dims& shape) { return {DType::u8, {ceil_div(shape.elements(), 8)}}; }

std::vector<Type> infer_relu(const Call& call) {
  call.require_floating(0);
  return {call.input(0), bit_mask(call.shape(0))};
}

std::vector<Type> infer_mask_backward(const Call& call) {
  call.require_floating(0);
  call.require(call.input(1) == bit_mask(call.shape(0)), "mask must have one bit for each element of dy");
  return {call.input(0)};
}

std::vector<Type> infer_backward(const Call& call) {
  call.require_floating(0);
  call.require_same(0, 1);
  return {call.input(0)};
}

enum class Reads { input, output };

// An op `name` and its `name_backward(dy, x or y)`, which reads the input or the output.
void add_pair(OpTable& table, const std::string& name, Reads reads) {
  const std::string backward = name + "_backward";
  table.add({.name = name,
             .inputs = {"x"},
             .infer = infer_floating,
             .gradient =
                 [backward, reads](Gradient& g) {
                   g.set(0, g.b.emit(backward, {g.of_output(), reads == Reads::input ? g.input(0) : g.output()}));
                 },
             .in_place = {0}});
  table.add({.name = backward,
             .inputs = {"dy", reads == Reads::input ? "x" : "y"},
             .infer = infer_backward,
             .in_place = {0, 1}});
}

void add_relu(OpTable& table) {
  table.add({.name = "relu",
             .inputs = {"x"},
             .outputs = {"y", "mask?"},
             .infer = infer_relu,
             .gradient =
                 [](Gradient& g) {
                   g.set(0, g.b.emit("mask_backward", {g.of_output(), g.saved(1)}));
                 },
             .in_place = {0}});
  // dy where the bit is set, zero elsewhere.
  table.add({.name = "mask_backward", .inputs = {"dy", "mask"}, .infer = infer_mask_backward, .in_place = {0}});
}

void add_neg(OpTable& table) {
  table.add({.name = "neg",
             .inputs = {"x"},
             .infer = infer_floating,
             .gradient = [](Gradient& g) { g.set(0, neg(g.b, g.of_output())); },
             .in_place = {0}});
}

}  // namespace

Value relu(Builder& b, Value x) { return b.emit("relu", {x}); }
Value sigmoid(Builder& b, Value x) { return b.emit("sigmoid", {x}); }
Value tanh(Builder& b, Value x) { return b.emit("tanh", {x}); }
Value exp(Builder& b, Value x) { return b.emit("exp", {x}); }
Value sqrt(Builder& b, Value x) { return b.emit("sqrt", {x}); }
Value log(Builder& b, Value x) { return b.emit("log", {x}); }
Value silu(Builder& b, Value x) { return b.emit("silu", {x}); }
Value gelu(Builder& b, Value x) { return b.emit("gelu", {x}); }
Value neg(Builder& b, Value x) { return b.emit("neg", {x}); }

void register_elementwise_unary(OpTable& table) {
  add_relu(table);
  add_neg(table);
  for (const char* name : {"sigmoid", "tanh", "exp", "sqrt"}) add_pair(table, name, Reads::output);
  for (const char* name : {"log", "silu", "gelu"}) add_pair(table, name, Reads::input);
}

}  // namespace plimsoll::program

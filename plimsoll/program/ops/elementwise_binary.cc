#include "plimsoll/program/ops/elementwise_binary.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

Type broadcast_type(const OpCall& call) {
  call.require_same_dtype(0, 1);
  return {call.input(0).dtype, broadcast(call, {0, 1})};
}

std::vector<Type> infer_number(const OpCall& call) {
  require_number(call, 0);
  return {broadcast_type(call)};
}

std::vector<Type> infer_floating(const OpCall& call) {
  call.require_floating(0);
  return {broadcast_type(call)};
}

std::vector<Type> infer_choice(const OpCall& call) {
  require_number(call, 0);
  const Type y = broadcast_type(call);
  return {y, bit_mask(y.shape)};
}

std::vector<Type> infer_equality(const OpCall& call) { return {{DType::boolean, broadcast_type(call).shape}}; }

std::vector<Type> infer_order(const OpCall& call) {
  require_number(call, 0);
  return infer_equality(call);
}

void require_boolean(const OpCall& call, int i) {
  if (call.input(i).dtype != DType::boolean) call.reject(fmt::format("{} must be bool", call.def.input_name(i)));
}

std::vector<Type> infer_logical(const OpCall& call) {
  require_boolean(call, 0);
  return {broadcast_type(call)};
}

std::vector<Type> infer_logical_not(const OpCall& call) {
  require_boolean(call, 0);
  return {call.input(0)};
}

std::vector<Type> infer_where(const OpCall& call) {
  require_boolean(call, 0);
  call.require_same_dtype(1, 2);
  return {{call.input(1).dtype, broadcast(call, {0, 1, 2})}};
}

std::vector<Type> infer_keep_where(const OpCall& call) {
  require_number(call, 0);
  require_boolean(call, 1);
  call.require(broadcasts_to(call.shape(1), call.shape(0)), "condition must broadcast to the shape of x");
  return {call.input(0)};
}

std::vector<Type> infer_pow_backward(const OpCall& call) {
  call.require_floating(0);
  for (const int i : {1, 2}) call.require_same_dtype(0, i);
  const Dims shape = broadcast(call, {1, 2});
  call.require(call.shape(0) == shape, "dy must have the shape that x and z broadcast to");
  return {call.input(0)};
}

// The gradient of operand i from that of the operand as broadcast.
void set_summed(Gradient& g, int i, Value gradient) { g.set(i, sum_to(g.b, gradient, g.b.shape(g.input(i)))); }

void differentiate_add(Gradient& g) {
  for (const int i : {0, 1}) {
    if (g.wants(i)) set_summed(g, i, g.of_output());
  }
}

void differentiate_sub(Gradient& g) {
  if (g.wants(0)) set_summed(g, 0, g.of_output());
  if (g.wants(1)) g.set(1, neg(g.b, sum_to(g.b, g.of_output(), g.b.shape(g.input(1)))));
}

void differentiate_mul(Gradient& g) {
  for (const int i : {0, 1}) {
    if (g.wants(i)) set_summed(g, i, mul(g.b, g.of_output(), g.input(1 - i)));
  }
}

// With y = x / z: dx = dy / z and dz = -dx * y, so x need not be kept.
void differentiate_div(Gradient& g) {
  const Value dx = div(g.b, g.of_output(), g.input(1));
  if (g.wants(0)) set_summed(g, 0, dx);
  if (g.wants(1)) g.set(1, neg(g.b, sum_to(g.b, mul(g.b, dx, g.output()), g.b.shape(g.input(1)))));
}

void differentiate_pow(Gradient& g) {
  const std::initializer_list<Value> reads = {g.of_output(), g.input(0), g.input(1)};
  if (g.wants(0)) set_summed(g, 0, g.b.emit("pow_backward_base", reads));
  if (g.wants(1)) set_summed(g, 1, g.b.emit("pow_backward_exponent", reads));
}

// The bit says whether x was taken.
void differentiate_choice(Gradient& g) {
  for (const int i : {0, 1}) {
    if (!g.wants(i)) continue;
    const double set = i == 0 ? 1 : 0;
    set_summed(g, i, g.b.emit("mask_backward", {g.of_output(), g.saved(1)}, {{"set", set}, {"clear", 1 - set}}));
  }
}

void differentiate_where(Gradient& g) {
  for (const int i : {1, 2}) {
    if (g.wants(i)) set_summed(g, i, keep_where(g.b, g.of_output(), g.input(0), i == 1));
  }
}

void differentiate_keep_where(Gradient& g) {
  if (g.wants(0)) g.set(0, keep_where(g.b, g.of_output(), g.input(1), g.attribute("when").flag()));
}

using Infer = std::vector<Type> (*)(const OpCall&);
using Differentiate = void (*)(Gradient&);

void add_arithmetic(OpTable& table, const char* name, Infer infer, Differentiate differentiate, Sign sign = Sign::any) {
  table.add({.name = name,
             .inputs = {"x", "z"},
             .infer = infer,
             .gradient = differentiate,
             .in_place = {0, 1},
             .traits = {.elementwise = true, .sign = sign}});
}

void add_choice(OpTable& table, const char* name) {
  table.add({.name = name,
             .inputs = {"x", "z"},
             .outputs = {"y", "mask?"},
             .infer = infer_choice,
             .gradient = differentiate_choice,
             .in_place = {0, 1},
             .traits = {.elementwise = true}});
}

void add_predicates(OpTable& table) {
  const auto add_predicate = [&](const char* name, Infer infer, std::vector<int> in_place) {
    table.add({.name = name,
               .inputs = {"x", "z"},
               .infer = infer,
               .in_place = std::move(in_place),
               .traits = {.elementwise = true}});
  };
  // Not comparisons: i64[8] has the bytes of bool[8,8], which it broadcasts to.
  for (const char* name : {"eq", "ne"}) add_predicate(name, infer_equality, {});
  for (const char* name : {"lt", "le", "gt", "ge"}) add_predicate(name, infer_order, {});
  for (const char* name : {"logical_and", "logical_or", "logical_xor"}) add_predicate(name, infer_logical, {0, 1});
  table.add({.name = "logical_not",
             .inputs = {"x"},
             .infer = infer_logical_not,
             .in_place = {0},
             .traits = {.elementwise = true}});
}

void add_where(OpTable& table) {
  table.add({.name = "where",
             .inputs = {"condition", "x", "z"},
             .infer = infer_where,
             .gradient = differentiate_where,
             .in_place = {1, 2},
             .traits = {.elementwise = true}});
  table.add({.name = "keep_where",
             .inputs = {"x", "condition"},
             .attributes = {{"when", AttributeKind::flag, Attribute(true)}},
             .infer = infer_keep_where,
             .gradient = differentiate_keep_where,
             .in_place = {0},
             .traits = {.elementwise = true}});
}

}  // namespace

Value add(Builder& b, Value x, Value z) { return b.emit("add", {x, z}); }
Value sub(Builder& b, Value x, Value z) { return b.emit("sub", {x, z}); }
Value mul(Builder& b, Value x, Value z) { return b.emit("mul", {x, z}); }
Value div(Builder& b, Value x, Value z) { return b.emit("div", {x, z}); }
Value pow(Builder& b, Value x, Value z) { return b.emit("pow", {x, z}); }
Value maximum(Builder& b, Value x, Value z) { return b.emit("maximum", {x, z}); }
Value minimum(Builder& b, Value x, Value z) { return b.emit("minimum", {x, z}); }
Value eq(Builder& b, Value x, Value z) { return b.emit("eq", {x, z}); }
Value ne(Builder& b, Value x, Value z) { return b.emit("ne", {x, z}); }
Value lt(Builder& b, Value x, Value z) { return b.emit("lt", {x, z}); }
Value le(Builder& b, Value x, Value z) { return b.emit("le", {x, z}); }
Value gt(Builder& b, Value x, Value z) { return b.emit("gt", {x, z}); }
Value ge(Builder& b, Value x, Value z) { return b.emit("ge", {x, z}); }
Value logical_and(Builder& b, Value x, Value z) { return b.emit("logical_and", {x, z}); }
Value logical_or(Builder& b, Value x, Value z) { return b.emit("logical_or", {x, z}); }
Value logical_xor(Builder& b, Value x, Value z) { return b.emit("logical_xor", {x, z}); }
Value logical_not(Builder& b, Value x) { return b.emit("logical_not", {x}); }
Value where(Builder& b, Value condition, Value x, Value z) { return b.emit("where", {condition, x, z}); }
Value keep_where(Builder& b, Value x, Value condition, bool when) {
  return b.emit("keep_where", {x, condition}, {{"when", when}});
}

void register_elementwise_binary(OpTable& table) {
  add_arithmetic(table, "add", infer_number, differentiate_add, Sign::kept);
  add_arithmetic(table, "sub", infer_number, differentiate_sub);
  add_arithmetic(table, "mul", infer_number, differentiate_mul, Sign::kept);
  add_arithmetic(table, "div", infer_floating, differentiate_div);
  add_arithmetic(table, "pow", infer_floating, differentiate_pow);
  for (const char* name : {"pow_backward_base", "pow_backward_exponent"}) {
    table.add({.name = name, .inputs = {"dy", "x", "z"}, .infer = infer_pow_backward, .in_place = {0, 1, 2}});
  }
  for (const char* name : {"maximum", "minimum"}) add_choice(table, name);
  add_predicates(table);
  add_where(table);
}

}  // namespace plimsoll::program

#include "plimsoll/program/ops/reduce.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

using Infer = std::vector<Type> (*)(const OpCall&);
using Differentiate = void (*)(Gradient&);

// What the attributes say of operand i.
Type reduced(const OpCall& call, int i) {
  const AxisSet axes = reduced_axes(call, call.shape(i).rank());
  return {call.input(i).dtype, reduced_shape(call.shape(i), axes, call.flag("keepdims"))};
}

std::vector<Type> infer_number(const OpCall& call) {
  require_number(call, 0);
  return {reduced(call, 0)};
}

std::vector<Type> infer_floating(const OpCall& call) {
  call.require_floating(0);
  return {reduced(call, 0)};
}

std::vector<Type> infer_extreme(const OpCall& call) {
  require_number(call, 0);
  const Type y = reduced(call, 0);
  const Dim count = reduced_count(call.shape(0), reduced_axes(call, call.shape(0).rank()));
  call.require(count != 0, "there is no extreme of no elements");
  return {y, {DType::i32, y.shape}};
}

// dy and, where there is one, y have the type that reducing x gives.
std::vector<Type> infer_backward(const OpCall& call) {
  call.require_floating(1);
  for (int i = 0; i < call.arity(); ++i) {
    if (i != 1 && call.input(i) != reduced(call, 1)) {
      call.reject(
          fmt::format("{} must be {}, as x reduced over axes", call.def.input_name(i), reduced(call, 1).text()));
    }
  }
  return {call.input(1)};
}

std::vector<Type> infer_extreme_backward(const OpCall& call) {
  call.require_floating(0);
  const Dims& shape = call.dims("shape");
  const Dims expected = reduced_shape(shape, reduced_axes(call, shape.rank()), call.flag("keepdims"));
  call.require(call.shape(0) == expected, "dy must have the attribute shape reduced over axes");
  call.require(call.input(1) == Type{DType::i32, expected}, "index must be i32 with the shape of dy");
  return {{call.input(0).dtype, shape}};
}

AxisSet axes_of(const Gradient& g) { return reduced_axes(g.attribute("axes").dims(), g.b.shape(g.input(0)).rank()); }

// dy, shown at every element that it was made of.
Value spread(Gradient& g, Value dy) {
  const Dims kept = reduced_shape(g.b.shape(g.input(0)), axes_of(g), true);
  if (g.b.shape(dy) != kept) dy = reshape(g.b, dy, kept);
  return expand(g.b, dy, g.b.shape(g.input(0)));
}

void differentiate_sum(Gradient& g) { g.set(0, spread(g, g.of_output())); }

// Divides before it spreads: the divided values are few.
void differentiate_mean(Gradient& g) {
  const Dim count = reduced_count(g.b.shape(g.input(0)), axes_of(g));
  g.set(0, spread(g, affine(g.b, g.of_output(), {.divisor = count})));
}

void differentiate_extreme(Gradient& g) {
  const Dims shape = g.b.shape(g.input(0));
  g.set(0, g.b.emit("extreme_backward", {g.of_output(), g.saved(1)},
                    {{"shape", shape}, {"axes", g.attribute("axes")}, {"keepdims", g.attribute("keepdims")}}));
}

void differentiate_prod(Gradient& g) {
  g.set(0, g.b.emit("prod_backward", {g.of_output(), g.input(0)},
                    {{"axes", g.attribute("axes")}, {"keepdims", g.attribute("keepdims")}}));
}

void differentiate_norm2(Gradient& g) {
  g.set(0, g.b.emit("norm2_backward", {g.of_output(), g.input(0), g.output()},
                    {{"axes", g.attribute("axes")}, {"keepdims", g.attribute("keepdims")}}));
}

void differentiate_var(Gradient& g) {
  g.set(0, g.b.emit("var_backward", {g.of_output(), g.input(0)},
                    {{"axes", g.attribute("axes")},
                     {"keepdims", g.attribute("keepdims")},
                     {"correction", g.attribute("correction")}}));
}

std::vector<AttributeSpec> reduce_attributes() {
  return {{"axes", AttributeKind::integers, Attribute(Dims{})}, {"keepdims", AttributeKind::flag, Attribute(false)}};
}

std::vector<AttributeSpec> reduce_attributes_and(AttributeSpec more) {
  std::vector<AttributeSpec> attributes = reduce_attributes();
  attributes.push_back(std::move(more));
  return attributes;
}

Dim one_an_element(const OpCall& call) { return call.shape(0).elements(); }
Dim three_an_element(const OpCall& call) { return Dim(3) * call.shape(0).elements(); }

void add_sums(OpTable& table) {
  const auto add_sum = [&](const char* name, Infer infer, Differentiate differentiate) {
    table.add({.name = name,
               .inputs = {"x"},
               .attributes = reduce_attributes(),
               .infer = infer,
               .gradient = differentiate,
               .flops = one_an_element});
  };
  add_sum("sum", infer_number, differentiate_sum);
  add_sum("mean", infer_floating, differentiate_mean);
  add_sum("prod", infer_number, differentiate_prod);
  table.add(
      {.name = "prod_backward", .inputs = {"dy", "x"}, .attributes = reduce_attributes(), .infer = infer_backward});
}

void add_extremes(OpTable& table) {
  for (const char* name : {"max", "min"}) {
    // index: which of the elements of its window, counted in row-major order, an element of y is.
    table.add({.name = name,
               .inputs = {"x"},
               .outputs = {"y", "index?"},
               .attributes = reduce_attributes(),
               .infer = infer_extreme,
               .gradient = differentiate_extreme,
               .flops = one_an_element});
  }
  table.add({.name = "extreme_backward",
             .inputs = {"dy", "index"},
             .attributes = reduce_attributes_and({"shape", AttributeKind::dims, {}}),
             .infer = infer_extreme_backward,
             .flops = no_flops});
}

void add_spreads(OpTable& table) {
  table.add({.name = "norm2",
             .inputs = {"x"},
             .attributes = reduce_attributes(),
             .infer = infer_floating,
             .gradient = differentiate_norm2,
             .flops = [](const OpCall& call) { return Dim(2) * call.shape(0).elements(); }});
  table.add({.name = "norm2_backward",
             .inputs = {"dy", "x", "y"},
             .attributes = reduce_attributes(),
             .infer = infer_backward,
             .in_place = {1}});
  const AttributeSpec correction = {"correction", AttributeKind::integer, Attribute(1)};
  table.add({.name = "var",
             .inputs = {"x"},
             .attributes = reduce_attributes_and(correction),
             .infer = infer_floating,
             .gradient = differentiate_var,
             .flops = three_an_element});
  table.add({.name = "var_backward",
             .inputs = {"dy", "x"},
             .attributes = reduce_attributes_and(correction),
             .infer = infer_backward,
             .in_place = {1},
             .flops = [](const OpCall& call) { return Dim(3) * call.shape(1).elements(); }});
}

Value reduce(Builder& b, const char* op, Value x, const ReduceOptions& options) {
  return b.emit(op, {x}, {{"axes", options.axes}, {"keepdims", options.keepdims}});
}

}  // namespace

Value sum(Builder& b, Value x, const ReduceOptions& options) { return reduce(b, "sum", x, options); }
Value mean(Builder& b, Value x, const ReduceOptions& options) { return reduce(b, "mean", x, options); }
Value max(Builder& b, Value x, const ReduceOptions& options) { return reduce(b, "max", x, options); }
Value min(Builder& b, Value x, const ReduceOptions& options) { return reduce(b, "min", x, options); }
Value prod(Builder& b, Value x, const ReduceOptions& options) { return reduce(b, "prod", x, options); }
Value norm2(Builder& b, Value x, const ReduceOptions& options) { return reduce(b, "norm2", x, options); }

Value var(Builder& b, Value x, const ReduceOptions& options, int correction) {
  return b.emit("var", {x}, {{"axes", options.axes}, {"keepdims", options.keepdims}, {"correction", correction}});
}

Value sum_to(Builder& b, Value x, Dims shape) {
  const Dims from = b.shape(x);
  if (from == shape) return x;
  if (!broadcasts_to(shape, from)) {
    throw ArgumentError(fmt::format("sum_to: %{} is {}, which {} does not broadcast to", b.program()[x].name,
                                    b.type(x).text(), shape.text()));
  }
  Dims axes;
  const int added = from.rank() - shape.rank();
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (axis < added || shape[axis - added] != from[axis]) axes.push_back(axis);
  }
  if (!axes.empty()) x = sum(b, x, {.axes = axes, .keepdims = true});
  return added == 0 ? x : reshape(b, x, shape);
}

void register_reduce(OpTable& table) {
  add_sums(table);
  add_extremes(table);
  add_spreads(table);
}

}  // namespace plimsoll::program

#include "plimsoll/program/ops/along_axis.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_arg(const OpCall& call) {
  require_number(call, 0);
  const int axis = call.axis("axis");
  call.require(call.shape(0)[axis] != 0, "there is no extreme of no elements");
  return {{DType::i64, reduced_shape(call.shape(0), AxisSet().set(static_cast<size_t>(axis)), call.flag("keepdims"))}};
}

std::vector<Type> infer_cumsum(const OpCall& call) {
  require_number(call, 0);
  call.axis("axis");
  return {call.input(0)};
}

// Each element adds to those after it, so it collects what comes after it.
void differentiate_cumsum(Gradient& g) {
  g.set(0, cumsum(g.b, g.of_output(), g.axis("axis"),
                  {.exclusive = g.attribute("exclusive").flag(), .reverse = !g.attribute("reverse").flag()}));
}

std::vector<Type> infer_top_k(const OpCall& call) {
  require_number(call, 0);
  const int axis = call.axis("axis");
  const Dim k = call.dim("k");
  Type y = call.input(0);
  const Dim beyond = k - y.shape[axis];
  if ((k.is_constant() && k.constant() < 0) || (beyond.is_constant() && beyond.constant() > 0)) {
    call.reject(
        fmt::format("k is {}, expected 0 to {}, the size of dimension {}", k.text(), y.shape[axis].text(), axis));
  }
  y.shape[axis] = k;
  return {y, {DType::i64, y.shape}};
}

void differentiate_top_k(Gradient& g) {
  if (!g.of_output(0)) return;
  const Dims shape = g.b.shape(g.input(0));
  g.set(0, g.b.emit("gather_elements_backward", {g.of_output(0), g.output(1)},
                    {{"shape", shape}, {"axis", g.attribute("axis")}}));
}

Dim one_an_element(const OpCall& call) { return call.shape(0).elements(); }

Value arg(Builder& b, const char* op, Value x, int axis, bool keepdims) {
  return b.emit(op, {x}, {{"axis", axis}, {"keepdims", keepdims}});
}

}  // namespace

Value argmax(Builder& b, Value x, int axis, bool keepdims) { return arg(b, "argmax", x, axis, keepdims); }
Value argmin(Builder& b, Value x, int axis, bool keepdims) { return arg(b, "argmin", x, axis, keepdims); }

Value cumsum(Builder& b, Value x, int axis, const CumsumOptions& options) {
  return b.emit("cumsum", {x}, {{"axis", axis}, {"exclusive", options.exclusive}, {"reverse", options.reverse}});
}

TopK top_k(Builder& b, Value x, Dim k, int axis, bool largest) {
  b.emit("top_k", {x}, {{"k", k}, {"axis", axis}, {"largest", largest}});
  return {b.last_outputs()[0], b.last_outputs()[1]};
}

void register_along_axis(OpTable& table) {
  const AttributeSpec axis = {"axis", AttributeKind::integer, Attribute(-1)};
  for (const char* name : {"argmax", "argmin"}) {
    table.add({.name = name,
               .inputs = {"x"},
               .attributes = {axis, {"keepdims", AttributeKind::flag, Attribute(false)}},
               .infer = infer_arg,
               .flops = one_an_element});
  }
  table.add({.name = "cumsum",
             .inputs = {"x"},
             .attributes = {axis,
                            {"exclusive", AttributeKind::flag, Attribute(false)},
                            {"reverse", AttributeKind::flag, Attribute(false)}},
             .infer = infer_cumsum,
             .gradient = differentiate_cumsum,
             .in_place = {0}});
  table.add({.name = "top_k",
             .inputs = {"x"},
             .outputs = {"y", "index"},
             .attributes = {{"k", AttributeKind::dim, {}}, axis, {"largest", AttributeKind::flag, Attribute(true)}},
             .infer = infer_top_k,
             .gradient = differentiate_top_k,
             .flops = one_an_element});
}

}  // namespace plimsoll::program

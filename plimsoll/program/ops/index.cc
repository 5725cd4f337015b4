#include "plimsoll/program/ops/index.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

// `shape` with `count` dimensions from `axis` on replaced by others.
Dims replaced(const Dims& shape, int axis, int count, const Dims& by) {
  Dims result(std::span(shape.begin(), shape.begin() + axis));
  for (const Dim dim : by) result.push_back(dim);
  for (const Dim* rest = shape.begin() + axis + count; rest < shape.end(); ++rest) result.push_back(*rest);
  return result;
}

std::vector<Type> infer_gather(const OpCall& call) {
  require_integer(call, 1);
  return {{call.input(0).dtype, replaced(call.shape(0), call.axis("axis"), 1, call.shape(1))}};
}

std::vector<Type> infer_embedding(const OpCall& call) {
  call.require_rank(0, 2);
  require_integer(call, 1);
  return {{call.input(0).dtype, replaced(call.shape(0), 0, 1, call.shape(1))}};
}

std::vector<Type> infer_gather_backward(const OpCall& call) {
  call.require_floating(0);
  require_integer(call, 1);
  const Dims& dy = call.shape(0);
  const Dims& index = call.shape(1);
  const int64_t axis = call.integer("axis");
  const bool fits =
      axis >= 0 && axis <= dy.rank() - index.rank() && std::equal(index.begin(), index.end(), dy.begin() + axis);
  call.require(fits, "dy must have the dimensions of index from axis on");
  return {{call.input(0).dtype, replaced(dy, static_cast<int>(axis), index.rank(), {call.dim("size")})}};
}

// An index for elements of `whole`: the same rank, and no larger but along the axis.
void require_element_index(const OpCall& call, int i, const Dims& whole, int axis) {
  require_integer(call, i);
  const Dims& index = call.shape(i);
  bool fits = index.rank() == whole.rank();
  for (int d = 0; fits && d < whole.rank(); ++d) fits = d == axis || may_be_in(index[d], whole[d] + 1);
  if (!fits) {
    call.reject(
        fmt::format("index must have the rank of {} and, but for dimension {}, no more elements", whole.text(), axis));
  }
}

std::vector<Type> infer_gather_elements(const OpCall& call) {
  require_element_index(call, 1, call.shape(0), call.axis("axis"));
  return {{call.input(0).dtype, call.shape(1)}};
}

std::vector<Type> infer_gather_elements_backward(const OpCall& call) {
  const Dims& shape = call.dims("shape");
  call.require(call.shape(0) == call.shape(1), "dy and index must have the same shape");
  require_element_index(call, 1, shape, call.axis("axis"));
  return {{call.input(0).dtype, shape}};
}

std::vector<Type> infer_scatter_elements(const OpCall& call) {
  require_element_index(call, 1, call.shape(0), call.axis("axis"));
  call.require_same_dtype(0, 2);
  call.require(call.shape(1) == call.shape(2), "index and updates must have the same shape");
  if (call.flag("add")) require_number(call, 0);
  return {call.input(0)};
}

std::vector<Type> infer_one_hot(const OpCall& call) {
  require_integer(call, 0);
  Type y{dtype_attribute(call), call.shape(0)};
  y.shape.push_back(call.dim("depth"));
  return {y};
}

void set_rows(Gradient& g, int axis, const Attribute& padding) {
  const Dim size = g.b.shape(g.input(0))[axis];
  g.set(0, g.b.emit("gather_backward", {g.of_output(), g.input(1)},
                    {{"axis", axis}, {"size", size}, {"padding", padding}}));
}

void differentiate_gather(Gradient& g) { set_rows(g, g.axis("axis"), -1); }

void differentiate_embedding(Gradient& g) { set_rows(g, 0, Attribute(g.attribute("padding"))); }

void differentiate_gather_elements(Gradient& g) {
  const Dims shape = g.b.shape(g.input(0));
  g.set(0, g.b.emit("gather_elements_backward", {g.of_output(), g.input(1)},
                    {{"shape", shape}, {"axis", g.attribute("axis")}}));
}

// What was replaced gets no gradient.
void differentiate_scatter_elements(Gradient& g) {
  const Value dy = g.of_output();
  const Value index = g.input(1);
  const int axis = g.axis("axis");
  const bool adds = g.attribute("add").flag();
  if (g.wants(0) && adds) g.set(0, dy);
  if (g.wants(0) && !adds) {
    const Type zeros = g.b.type(g.input(2));
    g.set(0, scatter_elements(g.b, dy, index, fill(g.b, 0, zeros), axis));
  }
  if (g.wants(2)) g.set(2, gather_elements(g.b, dy, index, axis));
}

// What is taken or put, twice: read and written; and the index.
Dim taken_bytes(const OpCall& call) { return Dim(2) * call.output(0).bytes() + call.input(1).bytes(); }

Dim adds(const OpCall& call) { return call.shape(0).elements(); }

Value scatter(Builder& b, Value x, Value index, Value updates, int axis, bool add) {
  return b.emit("scatter_elements", {x, index, updates}, {{"axis", axis}, {"add", add}});
}

std::optional<QuantizedForm> quantized_embedding(const OpCall&) {
  return QuantizedForm{.op = "embedding_i8", .weights = 0, .gathers = true};
}

void add_gathers(OpTable& table, const AttributeSpec& axis, const AttributeSpec& padding) {
  table.add({.name = "gather",
             .inputs = {"x", "index"},
             .attributes = {axis},
             .infer = infer_gather,
             .gradient = differentiate_gather,
             .flops = no_flops,
             .bytes = taken_bytes,
             .traits = {.indices = OpTraits::Indices{.axis = "axis"}}});
  table.add({.name = "embedding",
             .inputs = {"w", "index"},
             .attributes = {padding},
             .infer = infer_embedding,
             .gradient = differentiate_embedding,
             .flops = no_flops,
             .bytes = taken_bytes,
             .traits = {.indices = OpTraits::Indices{}, .quantized = quantized_embedding}});
  // Of gather and embedding: a dense array of zeros that the slices of dy are added to.
  table.add({.name = "gather_backward",
             .inputs = {"dy", "index"},
             .attributes = {axis, {"size", AttributeKind::dim, {}}, padding},
             .infer = infer_gather_backward,
             .flops = adds});
}

void add_elements(OpTable& table, const AttributeSpec& axis) {
  table.add({.name = "gather_elements",
             .inputs = {"x", "index"},
             .attributes = {axis},
             .infer = infer_gather_elements,
             .gradient = differentiate_gather_elements,
             .flops = no_flops,
             .bytes = taken_bytes,
             .traits = {.indices = OpTraits::Indices{.axis = "axis"}}});
  table.add({.name = "gather_elements_backward",
             .inputs = {"dy", "index"},
             .attributes = {{"shape", AttributeKind::dims, {}}, axis},
             .infer = infer_gather_elements_backward,
             .flops = adds});
  table.add({.name = "scatter_elements",
             .inputs = {"x", "index", "updates"},
             .attributes = {axis, {"add", AttributeKind::flag, Attribute(false)}},
             .infer = infer_scatter_elements,
             .gradient = differentiate_scatter_elements,
             .in_place = {0},
             .flops = [](const OpCall& call) { return call.flag("add") ? call.shape(2).elements() : Dim(0); },
             .traits = {.indices = OpTraits::Indices{.axis = "axis"}}});
}

}  // namespace

Value gather(Builder& b, Value x, Value index, int axis) { return b.emit("gather", {x, index}, {{"axis", axis}}); }
Value embedding(Builder& b, Value w, Value index, int64_t padding) {
  return b.emit("embedding", {w, index}, {{"padding", padding}});
}
Value gather_elements(Builder& b, Value x, Value index, int axis) {
  return b.emit("gather_elements", {x, index}, {{"axis", axis}});
}
Value scatter_elements(Builder& b, Value x, Value index, Value updates, int axis) {
  return scatter(b, x, index, updates, axis, false);
}
Value scatter_add(Builder& b, Value x, Value index, Value updates, int axis) {
  return scatter(b, x, index, updates, axis, true);
}
Value one_hot(Builder& b, Value index, Dim depth, DType dtype) {
  return b.emit("one_hot", {index}, {{"depth", depth}, {"dtype", dtype}});
}

void register_index(OpTable& table) {
  const AttributeSpec axis = {"axis", AttributeKind::integer, Attribute(0)};
  const AttributeSpec padding = {"padding", AttributeKind::integer, Attribute(-1)};
  add_gathers(table, axis, padding);
  add_elements(table, axis);
  table.add({.name = "one_hot",
             .inputs = {"index"},
             .attributes = {{"depth", AttributeKind::dim, {}}, {"dtype", AttributeKind::word, Attribute(DType::f32)}},
             .infer = infer_one_hot,
             .flops = no_flops});
}

}  // namespace plimsoll::program

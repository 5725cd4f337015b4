#include "plimsoll/program/ops/pad.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

void require_padding(const OpCall& call, const Dims& shape) {
  for (const char* side : {"before", "after"}) {
    require_one_each(call, side, shape.rank());
    call.require(!call.dims(side).is_negative(), "padding must not be negative");
  }
  const std::string& mode = call.word("mode");
  call.require(mode == "constant" || mode == "reflect" || mode == "edge", "mode must be constant, reflect or edge");
  for (int axis = 0; axis < shape.rank(); ++axis) {
    for (const Dim padding : {call.dims("before")[axis], call.dims("after")[axis]}) {
      const bool fits =
          mode == "constant" || padding == 0 || may_be_in(mode == "reflect" ? padding : Dim(0), shape[axis]);
      if (!fits)
        call.reject(fmt::format("{} padding of {} in dimension {} needs a larger x", mode, padding.text(), axis));
    }
  }
}

Dims padded(const OpCall& call, const Dims& shape) {
  Dims result = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    result[axis] = call.dims("before")[axis] + shape[axis] + call.dims("after")[axis];
  }
  return result;
}

std::vector<Type> infer_pad(const OpCall& call) {
  require_padding(call, call.shape(0));
  return {{call.input(0).dtype, padded(call, call.shape(0))}};
}

std::vector<Type> infer_pad_backward(const OpCall& call) {
  const Dims& shape = call.dims("shape");
  require_padding(call, shape);
  call.require(call.shape(0) == padded(call, shape), "dy must have the attribute shape with the padding");
  return {{call.input(0).dtype, shape}};
}

void differentiate_pad(Gradient& g) {
  const Dims shape = g.b.shape(g.input(0));
  const Attribute mode = g.attribute("mode");
  const Attribute before = g.attribute("before");
  if (mode.word() == "constant") {
    const Dims steps = repeated(1, shape.rank());
    g.set(0, g.b.emit("slice", {g.of_output()}, {{"starts", before}, {"sizes", shape}, {"steps", steps}}));
  } else {
    g.set(0, g.b.emit("pad_backward", {g.of_output()},
                      {{"shape", shape}, {"before", before}, {"after", g.attribute("after")}, {"mode", mode}}));
  }
}

std::vector<Type> infer_tile(const OpCall& call) {
  require_one_each(call, "repeats", call.shape(0).rank());
  call.require(!call.dims("repeats").is_negative(), "repeats must not be negative");
  Type y = call.input(0);
  for (int axis = 0; axis < y.shape.rank(); ++axis) y.shape[axis] = y.shape[axis] * call.dims("repeats")[axis];
  return {y};
}

// Each repeated dimension becomes two, repeats and size; the sum runs over the repeats.
void differentiate_tile(Gradient& g) {
  const Dims shape = g.b.shape(g.input(0));
  const Dims repeats = g.attribute("repeats").dims();
  Dims apart;
  Dims axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (repeats[axis] != 1) {
      axes.push_back(apart.rank());
      apart.push_back(repeats[axis]);
    }
    apart.push_back(shape[axis]);
  }
  g.set(0, axes.empty() ? g.of_output() : sum(g.b, reshape(g.b, g.of_output(), apart), {.axes = axes}));
}

}  // namespace

Value pad(Builder& b, Value x, const PadOptions& options) {
  return b.emit(
      "pad", {x},
      {{"before", options.before}, {"after", options.after}, {"mode", options.mode}, {"value", options.value}});
}

Value tile(Builder& b, Value x, const Dims& repeats) { return b.emit("tile", {x}, {{"repeats", repeats}}); }

void register_pad(OpTable& table) {
  const AttributeSpec before = {"before", AttributeKind::dims, {}};
  const AttributeSpec after = {"after", AttributeKind::dims, {}};
  const AttributeSpec mode = {"mode", AttributeKind::word, Attribute("constant")};
  table.add({.name = "pad",
             .inputs = {"x"},
             .attributes = {before, after, mode, {"value", AttributeKind::real, Attribute(0.0)}},
             .infer = infer_pad,
             .gradient = differentiate_pad,
             .flops = no_flops});
  table.add({.name = "pad_backward",
             .inputs = {"dy"},
             .attributes = {{"shape", AttributeKind::dims, {}}, before, after, mode},
             .infer = infer_pad_backward,
             .flops = [](const OpCall& call) { return call.shape(0).elements(); }});
  table.add({.name = "tile",
             .inputs = {"x"},
             .attributes = {{"repeats", AttributeKind::dims, {}}},
             .infer = infer_tile,
             .gradient = differentiate_tile,
             .flops = no_flops});
}

}  // namespace plimsoll::program

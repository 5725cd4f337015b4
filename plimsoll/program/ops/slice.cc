#include "plimsoll/program/ops/slice.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

constexpr int64_t kMostParts = 4096;

// Element i along a dimension of the slice is element start + i * step of a dimension of `whole`.
void require_inside(const OpCall& call, const Dims& whole, const Dims& sizes) {
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const Dim start = call.dims("starts")[axis];
    const Dim last = start + (sizes[axis] - 1) * call.dims("steps")[axis];
    if (sizes[axis] == 0 || (may_be_in(start, whole[axis]) && may_be_in(last, whole[axis]))) continue;
    call.reject(fmt::format("the slice goes from {} to {} in dimension {}, which has {}", start.text(), last.text(),
                            axis, whole[axis].text()));
  }
}

void require_slice(const OpCall& call, const Dims& whole, const Dims& sizes) {
  for (const char* attribute : {"starts", "steps"}) require_one_each(call, attribute, whole.rank());
  const Dims& steps = call.dims("steps");
  call.require(std::none_of(steps.begin(), steps.end(), [](Dim step) { return step == 0; }), "a step must not be 0");
  require_inside(call, whole, sizes);
}

std::vector<Type> infer_slice(const OpCall& call) {
  require_one_each(call, "sizes", call.shape(0).rank());
  require_slice(call, call.shape(0), call.dims("sizes"));
  return {{call.input(0).dtype, call.dims("sizes")}};
}

std::vector<Type> infer_slice_backward(const OpCall& call) {
  const Dims& shape = call.dims("shape");
  require_one_each(call, "shape", call.shape(0).rank());
  require_slice(call, shape, call.shape(0));
  return {{call.input(0).dtype, shape}};
}

std::optional<Layout> view_slice(const OpCall& call, const Layout& of) {
  Layout view = of;
  for (int axis = 0; axis < of.strides.rank(); ++axis) {
    view.offset = view.offset + call.dims("starts")[axis] * of.strides[axis];
    view.strides[axis] = call.dims("steps")[axis] * of.strides[axis];
  }
  return view;
}

void differentiate_slice(Gradient& g) {
  const Dims shape = g.b.shape(g.input(0));
  g.set(0, g.b.emit("slice_backward", {g.of_output()},
                    {{"shape", shape}, {"starts", g.attribute("starts")}, {"steps", g.attribute("steps")}}));
}

// The sizes of the pieces along the axis.
std::vector<Dim> piece_sizes(const OpCall& call) {
  const Dims& sizes = call.dims("sizes");
  if (!sizes.empty()) return {sizes.begin(), sizes.end()};
  const int64_t parts = call.integer("parts");
  call.require(parts > 0 && parts <= kMostParts, "parts must be 1 to 4096, or sizes given");
  const Dim whole = call.shape(0)[call.axis("axis")];
  return std::vector<Dim>(static_cast<size_t>(parts), floor_div(whole, parts));
}

std::vector<Type> infer_split(const OpCall& call) {
  const int axis = call.axis("axis");
  const Dim whole = call.shape(0)[axis];
  std::vector<Type> pieces;
  Dim total = 0;
  for (const Dim size : piece_sizes(call)) {
    pieces.push_back(call.input(0));
    pieces.back().shape[axis] = size;
    total = total + size;
  }
  if (total != whole) {
    call.reject(
        fmt::format("{} pieces of dimension {} make {}, expected {}", pieces.size(), axis, total.text(), whole.text()));
  }
  return pieces;
}

std::optional<Layout> view_piece(const OpCall& call, const Layout& of, int k) {
  const int axis = call.axis("axis");
  Dim before = 0;
  for (int piece = 0; piece < k; ++piece) before = before + call.output(piece).shape[axis];
  return Layout{of.offset + before * of.strides[axis], of.strides};
}

// Pieces that the loss does not depend on have the gradient zero.
void differentiate_split(Gradient& g) {
  std::vector<Value> gradients;
  for (int k = 0; k < g.outputs(); ++k) {
    const Value dy = g.of_output(k);
    gradients.push_back(dy ? dy : fill(g.b, 0, g.b.type(g.output(k))));
  }
  g.set(0, concat(g.b, gradients, g.axis("axis")));
}

std::vector<Type> infer_concat(const OpCall& call) {
  const int axis = call.axis("axis");
  Type y = call.input(0);
  for (int i = 1; i < call.arity(); ++i) {
    Type like = call.input(i);
    if (like.shape.rank() == y.shape.rank()) like.shape[axis] = y.shape[axis];
    if (like != y) {
      call.reject(fmt::format("operand {} is {}: all must have one dtype and, but for dimension {}, one shape", i,
                              call.input(i).text(), axis));
    }
    y.shape[axis] = y.shape[axis] + call.shape(i)[axis];
  }
  return {y};
}

void differentiate_concat(Gradient& g) {
  const int axis = g.axis("axis");
  Dim start = 0;
  for (int i = 0; i < g.arity(); ++i) {
    const Dim end = start + g.b.shape(g.input(i))[axis];
    if (g.wants(i)) g.set(i, slice(g.b, g.of_output(), {axis, start, end}));
    start = end;
  }
}

// A number that counts from the end when negative, cut to 0 .. size where that is known.
Dim cut(Dim place, Dim size, int64_t least, Dim most) {
  if (place.is_constant() && place.constant() < 0) place = size + place;
  if (!place.is_constant() || !most.is_constant()) return place;
  return std::clamp(place.constant(), least, std::max(least, most.constant()));
}

struct Cut {
  Dim start;
  Dim size;
};

Cut cut_out(const Range& range, Dim size) {
  if (range.step == 0) throw ArgumentError(fmt::format("slice: the step in dimension {} is 0", range.axis));
  const bool forward = range.step > 0;
  const Dim start = forward ? cut(range.start, size, 0, size) : cut(range.start, size, -1, size - 1);
  Dim end = forward ? size : Dim(-1);
  if (range.end) end = forward ? cut(*range.end, size, 0, size) : cut(*range.end, size, -1, size - 1);
  const Dim length = forward ? ceil_div(end - start, range.step) : ceil_div(start - end, -range.step);
  const bool none = length.is_constant() && length.constant() <= 0;
  return none ? Cut{0, 0} : Cut{start, length};
}

}  // namespace

Value slice(Builder& b, Value x, std::span<const Range> ranges) {
  Dims sizes = b.shape(x);
  const int rank = sizes.rank();
  Dims starts = repeated(0, rank);
  Dims steps = repeated(1, rank);
  for (const Range& range : ranges) {
    if (range.axis < -rank || range.axis >= rank) {
      throw ArgumentError(fmt::format("slice: %{} is {}, axis is {}, expected {} to {}", b.program()[x].name,
                                      b.type(x).text(), range.axis, -rank, rank - 1));
    }
    const int axis = range.axis < 0 ? range.axis + rank : range.axis;
    const Cut cut = cut_out(range, sizes[axis]);
    starts[axis] = cut.start;
    sizes[axis] = cut.size;
    steps[axis] = range.step;
  }
  return b.emit("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

Value slice(Builder& b, Value x, const Range& range) { return slice(b, x, std::span(&range, 1)); }

std::vector<Value> split(Builder& b, Value x, int axis, int parts) {
  b.emit("split", {x}, {{"axis", axis}, {"parts", parts}});
  return b.last_outputs();
}

std::vector<Value> split(Builder& b, Value x, int axis, const Dims& sizes) {
  b.emit("split", {x}, {{"axis", axis}, {"sizes", sizes}});
  return b.last_outputs();
}

Value concat(Builder& b, std::span<const Value> xs, int axis) {
  const NamedAttribute attribute{"axis", axis};
  return b.emit("concat", xs, std::span(&attribute, 1));
}

void register_slice(OpTable& table) {
  const AttributeSpec starts = {"starts", AttributeKind::dims, {}};
  const AttributeSpec steps = {"steps", AttributeKind::integers, {}};
  const AttributeSpec axis = {"axis", AttributeKind::integer, {}};
  table.add({.name = "slice",
             .inputs = {"x"},
             .attributes = {starts, {"sizes", AttributeKind::dims, {}}, steps},
             .infer = infer_slice,
             .gradient = differentiate_slice,
             .view = view_slice,
             .flops = no_flops});
  table.add({.name = "slice_backward",
             .inputs = {"dy"},
             .attributes = {{"shape", AttributeKind::dims, {}}, starts, steps},
             .infer = infer_slice_backward,
             .flops = no_flops});
  table.add({.name = "split",
             .inputs = {"x"},
             .outputs = {"ys..."},
             .attributes = {axis,
                            {"parts", AttributeKind::integer, Attribute(0)},
                            {"sizes", AttributeKind::dims, Attribute(Dims{})}},
             .infer = infer_split,
             .gradient = differentiate_split,
             .views = view_piece,
             .flops = no_flops});
  table.add({.name = "concat",
             .inputs = {"xs..."},
             .attributes = {axis},
             .infer = infer_concat,
             .gradient = differentiate_concat,
             .flops = no_flops,
             .traits = {.sign = Sign::kept}});
}

}  // namespace plimsoll::program

#include "plimsoll/program/ops/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

// The attribute `shape` with the size that -1 stands for.
Dims resolved_shape(const OpCall& call) {
  Dims shape = call.dims("shape");
  int open = -1;
  Dim known = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool is_open = shape[axis] == -1;
    if (is_open && open >= 0) call.reject(fmt::format("shape {} has more than one -1", shape.text()));
    if (is_open) open = axis;
    if (!is_open) known = known * shape[axis];
  }
  if (open < 0) return shape;
  if (known == 0) call.reject(fmt::format("shape {} leaves -1 open: another size is 0", shape.text()));
  const Dim elements = call.shape(0).elements();
  shape[open] = floor_div(elements, known);
  if (shape[open] * known != elements) {
    call.reject(fmt::format("shape {} leaves no whole size for -1: x has {} elements", call.dims("shape").text(),
                            elements.text()));
  }
  return shape;
}

std::vector<Type> infer_reshape(const OpCall& call) {
  call.require(!std::any_of(call.dims("shape").begin(), call.dims("shape").end(),
                            [](Dim dim) { return dim.is_constant() && dim.constant() < -1; }),
               "sizes in shape must not be negative, but for one -1");
  const Dims shape = resolved_shape(call);
  const Dim from = call.shape(0).elements();
  if (from != shape.elements()) {
    call.reject(fmt::format("shape {} has {} elements, x has {}", call.dims("shape").text(), shape.elements().text(),
                            from.text()));
  }
  return {{call.input(0).dtype, shape}};
}

// Dimensions that lie in memory as one: `size` elements, `stride` apart.
struct Stretch {
  Dim size;
  Dim stride;
};

// The fewest stretches that a layout is made of, the last first.
std::vector<Stretch> stretches_of(const Dims& shape, const Dims& strides) {
  std::vector<Stretch> stretches;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (!stretches.empty() && strides[axis] == stretches.back().size * stretches.back().stride) {
      stretches.back().size = stretches.back().size * shape[axis];
    } else {
      stretches.push_back({shape[axis], strides[axis]});
    }
  }
  if (stretches.empty()) stretches.push_back({1, 1});
  return stretches;
}

// A view when each stretch of x is cut into whole dimensions of the result.
std::optional<Layout> view_reshape(const OpCall& call, const Layout& of) {
  const Dims& to = call.output(0).shape;
  Layout view{of.offset, row_major(to)};
  if (to.elements() == 0) return view;
  int axis = to.rank() - 1;
  for (const Stretch& stretch : stretches_of(call.shape(0), of.strides)) {
    Dim covered = 1;
    for (; axis >= 0 && (covered != stretch.size || to[axis] == 1); --axis) {
      view.strides[axis] = covered * stretch.stride;
      covered = covered * to[axis];
    }
    if (covered != stretch.size) return std::nullopt;
  }
  return axis < 0 ? std::optional(view) : std::nullopt;
}

void require_permutation(const OpCall& call) {
  const Dims& axes = call.dims("axes");
  const int rank = call.shape(0).rank();
  unsigned seen = 0;
  for (const Dim axis : axes) {
    const int64_t place = axis.constant();
    if (place >= 0 && place < rank) seen |= 1U << place;
  }
  if (axes.rank() != rank || seen + 1 != 1U << rank) {
    call.reject(fmt::format("axes {} must name each of the {} dimensions of x once", axes.text(), rank));
  }
}

Dims permuted(const Dims& dims, const Dims& axes) {
  Dims result;
  for (const Dim axis : axes) result.push_back(dims[static_cast<int>(axis.constant())]);
  return result;
}

std::vector<Type> infer_transpose(const OpCall& call) {
  require_permutation(call);
  return {{call.input(0).dtype, permuted(call.shape(0), call.dims("axes"))}};
}

std::optional<Layout> view_transpose(const OpCall& call, const Layout& of) {
  return Layout{of.offset, permuted(of.strides, call.dims("axes"))};
}

void differentiate_transpose(Gradient& g) {
  const Dims axes = g.attribute("axes").dims();
  Dims inverse = axes;
  for (int i = 0; i < axes.rank(); ++i) inverse[static_cast<int>(axes[i].constant())] = i;
  g.set(0, transpose(g.b, g.of_output(), inverse));
}

std::vector<Type> infer_expand(const OpCall& call) {
  const Dims& shape = call.dims("shape");
  if (!broadcasts_to(call.shape(0), shape)) {
    call.reject(fmt::format("x must broadcast to shape {}: from the last dimension, sizes equal or 1", shape.text()));
  }
  return {{call.input(0).dtype, shape}};
}

std::optional<Layout> view_expand(const OpCall& call, const Layout& of) {
  const Dims& from = call.shape(0);
  const Dims& to = call.output(0).shape;
  Layout view{of.offset, to};
  for (int axis = 0; axis < to.rank(); ++axis) {
    const int source = axis - (to.rank() - from.rank());
    const bool repeats = source < 0 || from[source] != to[axis];
    view.strides[axis] = repeats ? Dim(0) : of.strides[source];
  }
  return view;
}

// Places among `rank` dimensions. ArgumentError that names the function and the axis.
std::vector<bool> named_axes(const char* function, const Dims& axes, int rank) {
  std::vector<bool> named(static_cast<size_t>(rank), false);
  for (const Dim axis : axes) {
    const int64_t given = axis.constant();
    if (given < -rank || given >= rank) {
      throw ArgumentError(fmt::format("{}: axes has {}, expected {} to {}", function, given, -rank, rank - 1));
    }
    named[static_cast<size_t>(given < 0 ? given + rank : given)] = true;
  }
  return named;
}

}  // namespace

Value reshape(Builder& b, Value x, const Dims& shape) { return b.emit("reshape", {x}, {{"shape", shape}}); }
Value transpose(Builder& b, Value x, const Dims& axes) { return b.emit("transpose", {x}, {{"axes", axes}}); }
Value expand(Builder& b, Value x, const Dims& shape) { return b.emit("expand", {x}, {{"shape", shape}}); }

Value squeeze(Builder& b, Value x, const Dims& axes) {
  const Dims from = b.shape(x);
  const std::vector<bool> named = named_axes("squeeze", axes, from.rank());
  Dims shape;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const bool drop = axes.empty() ? from[axis] == 1 : named[static_cast<size_t>(axis)];
    if (drop && from[axis] != 1) {
      throw ArgumentError(fmt::format("squeeze: %{} is {}; dimension {} must be 1 to be dropped", b.program()[x].name,
                                      b.type(x).text(), axis));
    }
    if (!drop) shape.push_back(from[axis]);
  }
  return reshape(b, x, shape);
}

Value unsqueeze(Builder& b, Value x, const Dims& axes) {
  const Dims from = b.shape(x);
  const int rank = from.rank() + axes.rank();
  const std::vector<bool> named = named_axes("unsqueeze", axes, rank);
  if (std::count(named.begin(), named.end(), true) != axes.rank()) {
    throw ArgumentError(fmt::format("unsqueeze: axes {} names a place twice", axes.text()));
  }
  Dims shape;
  int next = 0;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(named[static_cast<size_t>(axis)] ? Dim(1) : from[next++]);
  return reshape(b, x, shape);
}

Value flatten(Builder& b, Value x, int axis) {
  const Dims from = b.shape(x);
  if (axis < -from.rank() || axis > from.rank()) {
    throw ArgumentError(fmt::format("flatten: axis is {}, expected {} to {}", axis, -from.rank(), from.rank()));
  }
  const Dim* middle = from.begin() + (axis < 0 ? axis + from.rank() : axis);
  return reshape(b, x,
                 {Dims(std::span(from.begin(), middle)).elements(), Dims(std::span(middle, from.end())).elements()});
}

void register_shape(OpTable& table) {
  table.add({.name = "reshape",
             .inputs = {"x"},
             .attributes = {{"shape", AttributeKind::dims, {}}},
             .infer = infer_reshape,
             .gradient = [](Gradient& g) { g.set(0, reshape(g.b, g.of_output(), g.b.shape(g.input(0)))); },
             .view = view_reshape,
             .flops = no_flops,
             .traits = {.sign = Sign::kept}});
  table.add({.name = "transpose",
             .inputs = {"x"},
             .attributes = {{"axes", AttributeKind::integers, {}}},
             .infer = infer_transpose,
             .gradient = differentiate_transpose,
             .view = view_transpose,
             .flops = no_flops,
             .traits = {.sign = Sign::kept}});
  table.add({.name = "expand",
             .inputs = {"x"},
             .attributes = {{"shape", AttributeKind::dims, {}}},
             .infer = infer_expand,
             .gradient = [](Gradient& g) { g.set(0, sum_to(g.b, g.of_output(), g.b.shape(g.input(0)))); },
             .view = view_expand,
             .flops = no_flops});
}

}  // namespace plimsoll::program

#include "plimsoll/program/ops/shape.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_reshape(const Call& call) {
  const Dims& shape = call.dims("shape");
  const Dim from = call.shape(0).elements();
  if (from != shape.elements()) {
    call.reject(fmt::format("shape {} has {} elements, x has {}", shape.text(), shape.elements().text(), from.text()));
  }
  return {{call.input(0).dtype, shape}};
}

std::optional<Layout> view_reshape(const Call& call, const Layout& of) {
  if (of.strides != row_major(call.shape(0))) return std::nullopt;
  return Layout{of.offset, row_major(call.output(0).shape)};
}

void require_permutation(const Call& call) {
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

std::vector<Type> infer_transpose(const Call& call) {
  require_permutation(call);
  return {{call.input(0).dtype, permuted(call.shape(0), call.dims("axes"))}};
}

std::optional<Layout> view_transpose(const Call& call, const Layout& of) {
  return Layout{of.offset, permuted(of.strides, call.dims("axes"))};
}

void differentiate_transpose(Gradient& g) {
  const Dims axes = g.attribute("axes").dims();
  Dims inverse = axes;
  for (int i = 0; i < axes.rank(); ++i) inverse[static_cast<int>(axes[i].constant())] = i;
  g.set(0, transpose(g.b, g.of_output(), inverse));
}

Dim no_flops(const Call& /*call*/) { return 0; }

}  // namespace

Value reshape(Builder& b, Value x, const Dims& shape) { return b.emit("reshape", {x}, {{"shape", shape}}); }
Value transpose(Builder& b, Value x, const Dims& axes) { return b.emit("transpose", {x}, {{"axes", axes}}); }

void register_shape(OpTable& table) {
  table.add({.name = "reshape",
             .inputs = {"x"},
             .attributes = {{"shape", AttributeKind::dims, {}}},
             .infer = infer_reshape,
             .gradient = [](Gradient& g) { g.set(0, reshape(g.b, g.of_output(), g.b.shape(g.input(0)))); },
             .view = view_reshape,
             .flops = no_flops});
  table.add({.name = "transpose",
             .inputs = {"x"},
             .attributes = {{"axes", AttributeKind::integers, {}}},
             .infer = infer_transpose,
             .gradient = differentiate_transpose,
             .view = view_transpose,
             .flops = no_flops});
}

}  // namespace plimsoll::program

#include "plimsoll/program/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::program {
namespace {

// Lets dimension `from_end` of operand `i` take part in `shape`.
void merge(const OpCall& call, Dims& shape, int i, int from_end) {
  Dim& merged = shape[shape.rank() - from_end];
  const Dim size = call.shape(i).back(from_end);
  if (merged == 1) merged = size;
  if (size == 1 || size == merged) return;
  call.reject(
      fmt::format("dimension {} of {} is {}, another operand has {} there: to broadcast, sizes must be equal or 1",
                  -from_end, call.def.input_name(i), size.text(), merged.text()));
}

}  // namespace

Type bit_mask(const Dims& shape) { return {DType::u8, {ceil_div(shape.elements(), 8)}}; }

Dims broadcast(const OpCall& call, std::initializer_list<int> operands) {
  Dims shape;
  for (const int i : operands) {
    while (shape.rank() < call.shape(i).rank()) shape.push_back(1);
  }
  for (const int i : operands) {
    for (int from_end = 1; from_end <= call.shape(i).rank(); ++from_end) merge(call, shape, i, from_end);
  }
  return shape;
}

std::optional<Dims> broadcast_shapes(const Dims& a, const Dims& b) {
  Dims shape = a.rank() >= b.rank() ? a : b;
  for (int from_end = 1; from_end <= std::min(a.rank(), b.rank()); ++from_end) {
    const bool stretches = a.back(from_end) == 1;
    shape[shape.rank() - from_end] = stretches ? b.back(from_end) : a.back(from_end);
  }
  const bool fits = broadcasts_to(a, shape) && broadcasts_to(b, shape);
  return fits ? std::optional(shape) : std::nullopt;
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  if (from.rank() > to.rank()) return false;
  for (int from_end = 1; from_end <= from.rank(); ++from_end) {
    if (from.back(from_end) != 1 && from.back(from_end) != to.back(from_end)) return false;
  }
  return true;
}

AxisSet reduced_axes(const Dims& axes, int rank) {
  AxisSet named;
  for (const Dim axis : axes) named.set(static_cast<size_t>(axis.constant() + (axis.constant() < 0 ? rank : 0)));
  for (int axis = 0; axes.empty() && axis < rank; ++axis) named.set(static_cast<size_t>(axis));
  return named;
}

AxisSet reduced_axes(const OpCall& call, int rank) {
  const Dims& axes = call.dims("axes");
  for (const Dim axis : axes) {
    if (axis.constant() >= -rank && axis.constant() < rank) continue;
    call.reject(fmt::format("axes has {}, expected {} to {}", axis.text(), -rank, rank - 1));
  }
  const AxisSet named = reduced_axes(axes, rank);
  if (!axes.empty() && static_cast<int>(named.count()) != axes.rank()) {
    call.reject(fmt::format("axes {} names a dimension twice", axes.text()));
  }
  return named;
}

Dims reduced_shape(const Dims& shape, AxisSet axes, bool keepdims) {
  Dims reduced;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!axes[static_cast<size_t>(axis)]) reduced.push_back(shape[axis]);
    if (axes[static_cast<size_t>(axis)] && keepdims) reduced.push_back(1);
  }
  return reduced;
}

Dim reduced_count(const Dims& shape, AxisSet axes) {
  Dim count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes[static_cast<size_t>(axis)]) count = count * shape[axis];
  }
  return count;
}

void require_number(const OpCall& call, int i) {
  if (call.input(i).dtype == DType::boolean) {
    call.reject(fmt::format("{} must be floating or integer", call.def.input_name(i)));
  }
}

void require_integer(const OpCall& call, int i) {
  if (!is_integer(call.input(i).dtype)) call.reject(fmt::format("{} must be integer", call.def.input_name(i)));
}

DType dtype_attribute(const OpCall& call) {
  const auto dtype = try_parse_dtype(call.word("dtype"));
  if (!dtype) call.reject(fmt::format("dtype is {}, expected a name like f32 or i64", call.word("dtype")));
  return *dtype;
}

Dims repeated(Dim dim, int rank) {
  Dims dims;
  for (int axis = 0; axis < rank; ++axis) dims.push_back(dim);
  return dims;
}

void require_one_each(const OpCall& call, const char* attribute, int rank) {
  if (call.dims(attribute).rank() == rank) return;
  call.reject(fmt::format("{} is {}, expected one number for each of {} dimensions", attribute,
                          call.dims(attribute).text(), rank));
}

bool may_be_in(Dim index, Dim size) {
  if (index.is_constant() && index.constant() < 0) return false;
  const Dim beyond = index - size;
  return !beyond.is_constant() || beyond.constant() < 0;
}

Dim no_flops(const OpCall& /*call*/) { return 0; }

}  // namespace plimsoll::program

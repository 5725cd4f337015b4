#include "plimsoll/program/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll::program {

Dims::Dims(std::span<const Dim> dims) {
  for (const Dim dim : dims) push_back(dim);
}

Dims::Dims(const Shape& shape) {
  for (const int64_t dim : shape.dims()) push_back(dim);
}

void Dims::push_back(Dim dim) {
  if (rank_ == Shape::kMaxRank) throw ArgumentError(fmt::format("a shape has at most {} dimensions", Shape::kMaxRank));
  dims_[static_cast<size_t>(rank_++)] = dim;
}

Dim Dims::elements() const {
  Dim count = 1;
  for (const Dim dim : *this) count = count * dim;
  return count;
}

bool Dims::is_constant() const {
  return std::all_of(begin(), end(), [](Dim dim) { return dim.is_constant(); });
}

bool Dims::is_negative() const {
  return std::any_of(begin(), end(), [](Dim dim) { return dim.is_constant() && dim.constant() < 0; });
}

Shape Dims::shape() const {
  std::vector<int64_t> numbers;
  for (const Dim dim : *this) numbers.push_back(dim.constant());
  return Shape(numbers);
}

Dims Dims::bind(const Bindings& bindings) const {
  Dims bound;
  for (const Dim dim : *this) bound.push_back(dim.bind(bindings));
  return bound;
}

std::string Dims::text() const {
  std::string text = "[";
  for (const Dim dim : *this) text += fmt::format("{}{}", text.size() == 1 ? "" : ",", dim.text());
  return text + "]";
}

Dims row_major(const Dims& shape) {
  Dims strides = shape;
  Dim stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    if (axis > 0) stride = stride * shape[axis];
  }
  return strides;
}

Dim Type::bytes() const { return shape.elements() * element_bytes(dtype); }
TensorSpec Type::spec() const { return {dtype, shape.shape()}; }
std::string Type::text() const { return fmt::format("{}{}", name(dtype), shape.text()); }

}  // namespace plimsoll::program

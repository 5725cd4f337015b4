// Walking arrays by index, for the reference evaluations.
#pragma once

#include <array>
#include <cstdint>

#include "plimsoll/base/shape.h"

namespace plimsoll::program {

// One number for each dimension of a shape.
using Index = std::array<int64_t, Shape::kMaxRank>;

// The place of an index in a row-major array of this shape.
inline size_t place_of(const Shape& shape, const Index& index) {
  int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) place = place * shape[axis] + index[static_cast<size_t>(axis)];
  return static_cast<size_t>(place);
}

// Calls visit(index, place) for every element of a row-major array of this shape, in order.
template <class F>
void for_each_index(const Shape& shape, F visit) {
  Index index{};
  const auto count = static_cast<size_t>(shape.elements());
  for (size_t place = 0; place < count; ++place) {
    visit(static_cast<const Index&>(index), place);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      int64_t& i = index[static_cast<size_t>(axis)];
      if (++i < shape[axis]) break;
      i = 0;
    }
  }
}

}  // namespace plimsoll::program

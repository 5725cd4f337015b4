// Reading broadcast arrays, for the reference evaluations.
#pragma once

#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {

// The place in an array of shape `from` of what shows at `index` of shape `to`, which `from` is stretched to.
inline size_t broadcast_place(const Shape& from, const Shape& to, const Index& index) {
  Index shown{};
  const int missing = to.rank() - from.rank();
  for (int axis = 0; axis < from.rank(); ++axis) {
    shown[static_cast<size_t>(axis)] = from[axis] == 1 ? 0 : index[static_cast<size_t>(axis + missing)];
  }
  return place_of(from, shown);
}

}  // namespace plimsoll::program

// Shapes that stretch to fit each other, as in NumPy: aligned at their last dimensions, where a dimension of 1 or one
// that is not there takes the other's size.
#pragma once

#include <algorithm>
#include <optional>

#include "plimsoll/program/type.h"

namespace plimsoll::program {

// The shape that both stretch to; nothing when they do not fit. A symbol fits itself and 1.
inline std::optional<Dims> broadcast_shapes(const Dims& a, const Dims& b) {
  Dims result = a.rank() >= b.rank() ? a : b;
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const Dim one = a.back(i);
    const Dim other = b.back(i);
    if (one != other && one != Dim(1) && other != Dim(1)) return std::nullopt;
    result[result.rank() - i] = one == Dim(1) ? other : one;
  }
  return result;
}

}  // namespace plimsoll::program

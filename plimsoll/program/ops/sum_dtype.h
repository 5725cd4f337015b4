// What sums over elements of a floating dtype are kept in: losses, norms, statistics of lines.
#pragma once

#include "plimsoll/base/dtype.h"

namespace plimsoll::program {

// f64 for f64, f32 for the others.
constexpr DType sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace plimsoll::program

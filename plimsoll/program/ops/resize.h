// Resampling of the one to three spatial dimensions of x[batch, channels, spatial ..]. Backward reads nothing but dy.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

enum class ResizeMode { nearest, linear };

struct ResizeOptions {
  // The new spatial dimensions, one number for all or one for each. Empty: the old ones times `scale`, rounded down.
  Dims size = {};
  // New to old; where it is given, samples are 1 / scale apart even if the rounded sizes are not. 0: as the sizes say.
  double scale = 0;
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // linear: the centres of the corner elements stay where they are, not the edges
};

// Element i of a dimension of m comes from one of n at
//   nearest               floor(i * n / m)
//   linear                (i + 0.5) * n / m - 0.5, at least 0, between the two elements beside it
//   linear, align_corners i * (n - 1) / (m - 1), between the two elements beside it
// with n / m replaced by 1 / scale where scale is given (but for align_corners). Coordinates are computed in f64.
Value resize(Builder& b, Value x, const ResizeOptions& options);

}  // namespace plimsoll::program

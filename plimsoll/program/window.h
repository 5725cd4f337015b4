// Windows that slide over the spatial dimensions of x[batch, channels, spatial ..]: what convolutions and pools share.
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/program/op.h"

namespace plimsoll::program {

// One number for each spatial dimension, in each of these.
struct Window {
  Dims kernel;    // elements that a window takes
  Dims stride;    // from one window to the next
  Dims dilation;  // from one element of a window to the next
  Dims begin;     // padding before
  Dims end;       // and after

  int rank() const { return kernel.rank(); }
  // From the first to the last element of a window.
  Dim span(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  // Windows along a dimension of this size. `ceil_mode` adds one that hangs over the end, if it starts before it.
  Dim count(int axis, Dim size, bool ceil_mode = false) const;
  // As transposed convolution: how large a dimension is that has this many windows and no remainder.
  Dim covered(int axis, Dim windows) const {
    return (windows - 1) * stride[axis] + span(axis) - begin[axis] - end[axis];
  }
};

// The attributes stride, padding and dilation. Each is a list: empty (stride and dilation 1, no padding), one number
// for all spatial dimensions, or one for each; padding also one for each side, those before first:
// [top,left,bottom,right].
std::vector<AttributeSpec> window_attributes();

// An attribute that is such a list; `fallback` where it is empty.
Dims spread_over(const OpCall& call, std::string_view name, int rank, Dim fallback);

// The window of a call that has these attributes. Rejects what is not positive, and negative padding.
Window window_of(const OpCall& call, const Dims& kernel);

// The dimensions after batch and channels. Rejects other shapes than those with one to three of them.
Dims spatial(const OpCall& call, const Dims& shape);

// [batch, channels] of x and the spatial dimensions that the attribute `size` says, a list as above. Rejects empty
// ones.
Dims sized(const OpCall& call, const Dims& x);

// How many windows there are along each dimension of x. Rejects an x that has none.
Dims window_counts(const OpCall& call, const Window& window, const Dims& x, bool ceil_mode = false);

}  // namespace plimsoll::program

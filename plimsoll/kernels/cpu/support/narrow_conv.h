// Convolutions of images with few channels, such as the first of a net, over planes in row-major order in place.
// The layouts that oneDNN likes would cost a copy of the result, which is many times as large as what it is made of.
#pragma once

#include <optional>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// The sizes of y = conv(x, w): one group, strides and dilations of 1.
struct NarrowConv {
  int64_t batch, in, out;  // images, channels
  int64_t height, width;   // of x
  int64_t top, left;       // padding before the first row and column
  int64_t rows, columns;   // of y
  int64_t kernel_h, kernel_w;

  int64_t taps() const { return in * kernel_h * kernel_w; }
};

// Nothing when oneDNN is the better choice: many channels, small planes, strides.
std::optional<NarrowConv> narrow_conv(const program::OpCall& op_call, const Shape& x, const Shape& w, const Shape& y);

// Operands x, w and perhaps a bias.
Kernel narrow_forward(const NarrowConv& conv, const KernelCall& call);
// Operands dy and x; the result is dw.
Kernel narrow_backward_weights(const NarrowConv& conv, const KernelCall& call);

}  // namespace plimsoll::kernels

// The gradient of a convolution's weights where images are small and channels many, on matrix units: for each tap
// dw = dy' x, with dy turned once and x packed as the tap finds it. Libraries, made for large images, are several times
// slower there.
#pragma once

#include <optional>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

struct SmallImageWeights {
  int64_t in, out;               // channels
  int64_t height, width;         // of x
  int64_t batch, rows, columns;  // of dy
  int64_t kernel_h, kernel_w;
  int64_t stride_h, stride_w;
  int64_t dilation_h, dilation_w;
  int64_t top, left;  // padding

  int64_t places() const { return batch * rows * columns; }
  int64_t taps() const { return kernel_h * kernel_w; }
};

// Operands dy and x, result dw. Nothing where this is not for the use.
std::optional<SmallImageWeights> small_image_weights(const Use& use);

Kernel small_image_weights_kernel(const SmallImageWeights& sizes, const Use& use);

}  // namespace plimsoll::kernels

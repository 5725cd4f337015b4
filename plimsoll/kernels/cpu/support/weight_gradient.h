// What kernels for the gradient of a convolution's weights know of a use: its operands are dy and x, its result is dw.
#pragma once

#include <optional>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

struct WeightGradient {
  int64_t batch, in, out;  // images, channels
  int64_t height, width;   // of x
  int64_t rows, columns;   // of dy
  int64_t kernel_h, kernel_w;
  int64_t stride_h, stride_w;
  int64_t dilation_h, dilation_w;
  int64_t top, left;  // padding

  int64_t places() const { return batch * rows * columns; }  // of dy, those of all images
  int64_t taps() const { return kernel_h * kernel_w; }       // of one channel
};

// Of images in one group; nothing for others.
std::optional<WeightGradient> weight_gradient(const KernelCall& call);

}  // namespace plimsoll::kernels

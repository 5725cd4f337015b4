// The gradient of the weights of a convolution of images with few channels, on matrix units: dw = x' dy, with a row of
// x' for each tap of the kernel and a column for each place of dy. Libraries make it slowly, because they want blocks
// of channels of x, too.
#pragma once

#include <optional>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

struct NarrowWeights {
  int64_t in, out;                // channels
  int64_t height, width;          // of x
  int64_t rows, columns, places;  // of dy; the places are those of all samples
  int64_t kernel_h, kernel_w;
  int64_t stride_h, stride_w;
  int64_t top, left;  // padding

  int64_t taps() const { return in * kernel_h * kernel_w; }
};

// Operands dy and x, result dw. Nothing where this is not for the use: no matrix units, many channels, dy not with its
// channels last.
std::optional<NarrowWeights> narrow_weights(const Use& use);

Kernel narrow_weights_kernel(const NarrowWeights& sizes, const Use& use);

}  // namespace plimsoll::kernels

// The gradient of the weights of a convolution of images with few channels, on AMX tiles: dw = x' dy, with a row of
// x' for each tap of the kernel and a column for each place of dy. Libraries make it slowly, because they want blocks
// of channels of x, too.
#pragma once

#include <optional>

#include "plimsoll/kernels/cpu/support/weight_gradient.h"

namespace plimsoll::kernels {

// Nothing where this is not for the use: no AMX tiles, many channels, dy not with its channels last.
std::optional<WeightGradient> narrow_weights(const KernelCall& call);

Kernel narrow_weights_kernel(const WeightGradient& sizes, const KernelCall& call);

}  // namespace plimsoll::kernels

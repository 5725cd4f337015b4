// The gradient of a convolution's weights where images are small and channels many, on AMX tiles: for each tap
// dw = dy' x, with dy turned once and x packed as the tap finds it. Libraries, made for large images, are several times
// slower there.
#pragma once

#include <optional>

#include "plimsoll/kernels/cpu/support/weight_gradient.h"

namespace plimsoll::kernels {

// Nothing where this is not for the use.
std::optional<WeightGradient> small_image_weights(const KernelCall& call);

Kernel small_image_weights_kernel(const WeightGradient& sizes, const KernelCall& call);

}  // namespace plimsoll::kernels

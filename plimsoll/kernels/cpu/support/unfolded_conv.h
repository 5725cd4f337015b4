// The gradient of a convolution's weights as a product of matrices: for small images and odd numbers of channels, where
// oneDNN would do the same, but takes memory for it on the heap in every call.
#pragma once

#include "plimsoll/kernels/cpu/support/conv_shapes.h"

namespace plimsoll::kernels {

// Whether oneDNN would unfold this, as `primitive`, and its products of matrices are free of that. In one group only.
bool suits_unfolding(const Conv& conv, const dnnl::primitive_desc_base& primitive);

// In f32. Operands dy and x; the result is dw. Samples are unfolded together as far as they take little scratch.
Kernel unfolded_backward_weights(const Conv& conv, const KernelCall& call);

}  // namespace plimsoll::kernels

// Copies between layouts in host memory.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// From a tensor that lies as `tensor` says to one of the same shape in row-major order.
void copy_to_contiguous(const TensorDesc& tensor, const std::byte* from, std::byte* to);

// Between any two layouts of one shape and dtype.
void copy_strided(const TensorDesc& source, const std::byte* from, const TensorDesc& target, std::byte* to);

}  // namespace plimsoll::kernels

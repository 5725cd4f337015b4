// Copies between layouts (plimsoll/kernels/copy.h), on several threads.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// Between any two layouts of one shape and dtype.
void copy_strided(const TensorDesc& source, const std::byte* from, const TensorDesc& target, std::byte* to,
                  int threads);

void copy_to_contiguous(const TensorDesc& tensor, const std::byte* from, std::byte* to, int threads);

}  // namespace plimsoll::kernels

// Copies between layouts (plimsoll/kernels/copy.h), on several threads.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// Between any two layouts of one shape and dtype.
void copy_strided(const Tensor& source, const std::byte* from, const Tensor& target, std::byte* to, int threads);

void copy_to_contiguous(const Tensor& tensor, const std::byte* from, std::byte* to, int threads);

}  // namespace plimsoll::kernels

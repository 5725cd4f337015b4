// 3x3 convolutions by Winograd's algorithm over planes in row-major order, for machines on which oneDNN has none:
// without AVX-512. The transforms and products are simd/simd.h's.
#pragma once

#include <optional>

#include "plimsoll/kernels/cpu/support/conv_shapes.h"
#include "plimsoll/kernels/cpu/support/epilogue.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// Of convolutions with one group, strides and dilations of 1. Operands and results may be f32, f16 or bf16: what is not
// f32 is upcast as squares are gathered, and rounded as they are written. Nothing where it would take more scratch
// than `limit`.
std::optional<Kernel> winograd_forward(const Conv& conv, const KernelCall& call, const Epilogue& epilogue,
                                       int64_t limit);
std::optional<Kernel> winograd_backward_data(const Conv& conv, const KernelCall& call, int64_t limit);
std::optional<Kernel> winograd_backward_weights(const Conv& conv, const KernelCall& call, int64_t limit);

}  // namespace plimsoll::kernels

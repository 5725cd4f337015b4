// Kernels that compute in f32, for operands and results in f16 and bf16: the kernel is given f32 copies of these in
// scratch. Where the use can be cut, it is run for one piece after the other, small enough that the copies stay in the
// cache: that costs little time and hardly any scratch. The same pieces for the same thread count: same bits.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// `prepare` makes the kernel for a piece of the use, or the whole, in f32.
Kernel upcast_wrapper(const KernelCall& call, const Tiling& tiling, const std::function<Kernel(KernelCall)>& prepare);

}  // namespace plimsoll::kernels

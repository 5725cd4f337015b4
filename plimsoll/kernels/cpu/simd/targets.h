// Which instructions the files of this folder are compiled for: each includes itself once for every target
// (hwy/foreach_target.h), in a namespace of its own, under what the target allows. To be included before Highway.
#pragma once

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/isa.h"

// The function of that name as it is compiled for an Isa.
#if defined(__x86_64__)
// SSE4 is the least that oneDNN runs on; what some machines have beyond AVX-512 is not worth the time to compile it.
#define HWY_WANT_SSE4 1
#define HWY_DISABLED_TARGETS (~(HWY_SSE4 | HWY_AVX2 | HWY_AVX3))
#define PLIMSOLL_FOR_ISA(isa, name) \
  ((isa) == Isa::sse4 ? N_SSE4::name : (isa) == Isa::avx2 ? N_AVX2::name : N_AVX3::name)
#else
#define HWY_COMPILE_ONLY_STATIC 1
#define PLIMSOLL_FOR_ISA(isa, name) (static_cast<void>(isa), HWY_STATIC_DISPATCH(name))
#endif

namespace plimsoll::kernels::simd {

// Each file's part of the functions.
void add_elements(Isa isa, Functions& functions);
void add_exponentials(Isa isa, Functions& functions);
void add_panels(Isa isa, Functions& functions);
void add_pools(Isa isa, Functions& functions);
void add_products(Isa isa, Functions& functions);
void add_winograd(Isa isa, Functions& functions);

}  // namespace plimsoll::kernels::simd

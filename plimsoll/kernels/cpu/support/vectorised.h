// Loops that the compiler makes vector code of, once for each kind of vectors that machines have. (What it cannot is
// written in vectors, see simd/simd.h.)
#pragma once

#include "plimsoll/kernels/cpu/support/isa.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PLIMSOLL_VECTORISES
#endif

namespace plimsoll::kernels {

#ifdef PLIMSOLL_VECTORISES

// All that f calls is compiled into these.
template <class F>
[[gnu::flatten, gnu::noinline, gnu::target("avx2,fma,bmi,bmi2,lzcnt,movbe,f16c")]] auto on_avx2(F f) {
  return f();
}

template <class F>
[[gnu::flatten, gnu::noinline,
  gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx512cd,avx2,fma,bmi,bmi2,lzcnt,movbe,f16c")]] auto
on_avx512(F f) {
  return f();
}

// Calls f as it is compiled for this machine. It captures by value what it can: the compiler then knows that no store
// changes it.
template <class F>
auto vectorised(F f) {
  switch (vector_isa()) {
    case Isa::sse4:
      return f();
    case Isa::avx2:
      return on_avx2(f);
    default:
      return on_avx512(f);
  }
}

#else

template <class F>
auto vectorised(F f) {
  return f();
}

#endif

}  // namespace plimsoll::kernels

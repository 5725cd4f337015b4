// Element by element over contiguous arrays. Results may lie where operands do.
#pragma once

#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

template <class F>
void map(float* y, const float* x, int64_t count, F f) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
  });
}

template <class F>
void map(float* y, const float* x, const float* z, int64_t count, F f) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = f(x[i], z[i]);
  });
}

// y = f(x)
template <class F>
Kernel map_kernel(const KernelCall& call, F f) {
  call.require_f32(0);
  return plain([count = call.out().elements(), threads = call.threads, f](const Memory& memory) -> Task {
    return [=, x = memory.in<float>(0), y = memory.out<float>()] {
      parallel(threads, count, kGrain,
               [=](int, int64_t begin, int64_t end) { map(y + begin, x + begin, end - begin, f); });
    };
  });
}

// y = f(x, z), all of one shape
template <class F>
Kernel map2_kernel(const KernelCall& call, F f) {
  call.require_f32(0);
  call.require_f32(1);
  return plain([count = call.out().elements(), threads = call.threads, f](const Memory& memory) -> Task {
    return [=, x = memory.in<float>(0), z = memory.in<float>(1), y = memory.out<float>()] {
      parallel(threads, count, kGrain,
               [=](int, int64_t begin, int64_t end) { map(y + begin, x + begin, z + begin, end - begin, f); });
    };
  });
}

}  // namespace plimsoll::kernels

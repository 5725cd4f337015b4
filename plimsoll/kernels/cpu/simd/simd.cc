#include "plimsoll/kernels/cpu/simd/simd.h"

namespace plimsoll::kernels::simd {
namespace {

const Functions& pick() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (wide) return avx512::kFunctions;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kFunctions;
#endif
  return any::kFunctions;
}

}  // namespace

const Functions& functions() {
  static const Functions& picked = pick();
  return picked;
}

}  // namespace plimsoll::kernels::simd

// What products of bytes share: what they are multiplied in, and what becomes of their sums.
#pragma once

#include <bit>

#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/parallel.h"

namespace plimsoll::kernels {

// Bytes, and sums of i32, where the machine has instructions for that; else f32 throughout, which is exact for sums
// below 2^24.
struct ProductTypes {
  DType x, w, sum;
};

inline ProductTypes product_types(DType x) {
  if (dnnl_multiplies_bytes()) return {x, DType::i8, DType::i32};
  return {DType::f32, DType::f32, DType::f32};
}

// A sum in place in memory, of i32 or f32.
template <class Sum>
[[gnu::always_inline]] inline float as_number(uint32_t bits) {
  return static_cast<float>(std::bit_cast<Sum>(bits));
}

// f(Sum{}) with what the sums are.
template <class F>
void for_sums(DType sum, const F& f) {
  if (sum == DType::i32) {
    f(int32_t{});
  } else {
    f(float{});
  }
}

}  // namespace plimsoll::kernels

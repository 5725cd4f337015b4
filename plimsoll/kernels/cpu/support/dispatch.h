// From a dtype to the C++ type that a kernel is made for.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// make(T{}) for the T of a number.
template <class F>
Kernel for_number(const KernelCall& call, DType dtype, const F& make) {
  switch (dtype) {
    case DType::f32:
      return make(float{});
    case DType::f64:
      return make(double{});
    case DType::i64:
      return make(int64_t{});
    case DType::i32:
      return make(int32_t{});
    default:
      call.unsupported("the CPU computes this in f32, f64, i32 and i64");
  }
}

template <class F>
Kernel for_real(const KernelCall& call, DType dtype, const F& make) {
  switch (dtype) {
    case DType::f32:
      return make(float{});
    case DType::f64:
      return make(double{});
    default:
      call.unsupported("the CPU computes this in f32 and f64");
  }
}

// make(T{}) for a T of the size of an element: for kernels that only move elements.
template <class F>
Kernel for_size(DType dtype, const F& make) {
  switch (element_bytes(dtype)) {
    case 1:
      return make(uint8_t{});
    case 2:
      return make(uint16_t{});
    case 4:
      return make(uint32_t{});
    default:
      return make(uint64_t{});
  }
}

}  // namespace plimsoll::kernels

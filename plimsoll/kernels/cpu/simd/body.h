// The code of simd.h, compiled into the namespace PLIMSOLL_SIMD by the file that includes it; body/ has its parts.
#include "plimsoll/kernels/cpu/simd/body/channels.h"
#include "plimsoll/kernels/cpu/simd/body/exponentials.h"
#include "plimsoll/kernels/cpu/simd/body/maps.h"
#include "plimsoll/kernels/cpu/simd/body/masks.h"
#include "plimsoll/kernels/cpu/simd/body/pools.h"
#include "plimsoll/kernels/cpu/simd/body/tiles.h"
#include "plimsoll/kernels/cpu/simd/body/vectors.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

template <class D>
constexpr ElementLoops loops_on() {
  return {.relu = relu<D>,
          .keep = keep<D>,
          .add = add<D>,
          .largest = largest<D>,
          .sum_of_exp = sum_of_exp<D>,
          .exp_slope = exp_slope<D>,
          .gelu_tanh = gelu_tanh<D>,
          .gelu_tanh_backward = gelu_tanh_backward<D>,
          .max_pool_u8 = {max_pool<D, uint8_t>, max_pool_backward<D, uint8_t>},
          .max_pool_i32 = {max_pool<D, int32_t>, max_pool_backward<D, int32_t>},
          .average_pool = average_pool<D>,
          .average_pool_backward = average_pool_backward<D>};
}

}  // namespace

const Functions kFunctions = {
    .bf16 = {widen<from_bf16>, narrow<to_bf16>, widen_lanes<from_bf16>, narrow_lanes<to_bf16>},
    .f16 = {widen<from_f16>, narrow<to_f16>, widen_lanes<from_f16>, narrow_lanes<to_f16>},
    .on_f32 = loops_on<F32>(),
    .on_bf16 = loops_on<Bf16>(),
    .on_f16 = loops_on<F16>(),
    .channels = {sum_channels, sum_squares, sum_slopes, affine, gradient},
    .multiply = multiply,
    .transpose = transpose,
    .largest = largest<F32>,
    .exp_in_place = exp_in_place,
};

}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/cpu/tiles/pack.h"
#include "plimsoll/kernels/cpu/tiles/tiles.h"

namespace plimsoll::kernels::tiles::any {
namespace {

void nothing() {}

void multiply(const BlockProduct& p) {
  for (int64_t i = 0; i < kBlock; ++i) {
    for (int64_t j = 0; j < kBlock; ++j) {
      float sum = p.add ? p.c[i * p.c_row + j] : 0;
      for (int64_t k = 0; k < p.steps * kDepth; ++k) {
        sum += from_bf16(p.a[i * p.a_row + k]) * from_bf16(p.b[packed_place(k, j)]);
      }
      p.c[i * p.c_row + j] = sum;
    }
  }
}

void downcast(uint16_t* y, const float* x, int64_t count) { simd::functions().bf16.downcast(y, x, count); }

}  // namespace

const Functions kFunctions = {nothing, multiply, nothing, downcast};

}  // namespace plimsoll::kernels::tiles::any

// Inner loops that are written in vectors of 16 numbers and compiled once for each kind of vector that machines have:
// body.h is the code, avx512.cc, avx2.cc and any.cc compile it. What this machine can run is picked once. (Loops that a
// compiler turns into vectors by itself are marked PLIMSOLL_VECTORISED instead, see support/parallel.h.)
//
// Files in this folder that are compiled for more than the oldest machine must not use templates or inline functions of
// others: the linker might take their copies for all.
#pragma once

#include <cstdint>

namespace plimsoll::kernels::simd {

inline constexpr int64_t kLanes = 16;

// A product of small matrices that are in the cache: c is [rows, columns], a [rows, inner], b [inner, columns]. Rows
// may be any distance apart; the columns of b and c lie together, those of a `a_step` apart (so a may be transposed).
struct TileProduct {
  int64_t rows, columns, inner;
  const float* a;
  int64_t a_row, a_step;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;  // to what is in c
};

// A window of a pool along one dimension: elements start + k * step for k in [first, end), those that are in x.
struct Reach {
  int64_t start, first, end;
  int64_t divisor;  // what an average counts
};

struct PoolAxis {
  int64_t size;    // of x
  int64_t kernel;  // places in a window: how taps are numbered
  int64_t step;
  const Reach* windows;
  int64_t count;  // of windows
};

// Three dimensions, and kLanes channels beside each other at every place.
struct PoolPlane {
  PoolAxis axes[3];
  bool numbers_plane;  // taps are numbered by their place in x, not in the window
};

// dx must be zero at first. Of equal elements the first is the largest, and NaN is above all. Indices may be null.
template <class Index>
struct MaxPool {
  void (*forward)(const PoolPlane& plane, const float* x, float* y, Index* indices);
  void (*backward)(const PoolPlane& plane, const float* dy, const Index* indices, float* dx);
};

// f16 or bf16, as the bits that they are, to and from f32. Rounds to nearest, halves to even; NaN and infinities stay.
struct HalfLines {
  void (*widen)(float* y, const uint16_t* x, int64_t count);
  void (*narrow)(uint16_t* y, const float* x, int64_t count);
  // kLanes of them at each of `count` places: `step` apart, and beside each other in f32.
  void (*widen_lanes)(float* y, const uint16_t* x, int64_t step, int64_t count);
  void (*narrow_lanes)(uint16_t* y, int64_t step, const float* x, int64_t count);
};

struct Functions {
  HalfLines bf16;
  HalfLines f16;

  void (*multiply)(const TileProduct& product);
  // y = x where x is not below zero, and a bit for each x above it; the mask may be null. y may lie where x does.
  void (*relu)(float* y, uint8_t* mask, const float* x, int64_t count);
  // dx = dy where the bit is set, else 0.
  void (*keep)(float* dx, const float* dy, const uint8_t* mask, int64_t count);

  // Exponentials to about 2 units in the last place; those below the smallest normal number are 0. NaN stays.
  float (*largest)(const float* x, int64_t count);  // minus infinity when there is none; NaN is passed over
  float (*sum_of_exp)(const float* x, int64_t count, float shift);  // of exp(x - shift)
  float (*exp_in_place)(float* x, int64_t count, float shift);      // x = exp(x - shift), and their sum
  // dx = slope * (exp(x - shift) - share); dx may lie where x does.
  void (*exp_slope)(float* dx, const float* x, int64_t count, float shift, float slope, float share);
  void (*gelu_tanh)(float* y, const float* x, int64_t count);
  void (*gelu_tanh_backward)(float* dx, const float* dy, const float* x, int64_t count);

  MaxPool<uint8_t> max_pool_u8;
  MaxPool<int32_t> max_pool_i32;
  void (*average_pool)(const PoolPlane& plane, const float* x, float* y);
  void (*average_pool_backward)(const PoolPlane& plane, const float* dy, float* dx);
};

// For this machine.
const Functions& functions();

namespace avx512 {
extern const Functions kFunctions;
}
namespace avx2 {
extern const Functions kFunctions;
}
namespace any {
extern const Functions kFunctions;
}

}  // namespace plimsoll::kernels::simd

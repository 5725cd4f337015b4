// The transforms of Winograd's algorithm for 3x3 convolutions, F(4x4, 3x3).
#include "plimsoll/kernels/cpu/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plimsoll/kernels/cpu/simd/winograd.cc"
#include <hwy/foreach_target.h>

#include "plimsoll/kernels/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::simd {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE Register number(float x) { return hn::Set(DF(), x); }

// Each makes kTo numbers of kFrom, along one dimension.

struct OfPatch {
  static constexpr int kFrom = 6;
  static constexpr int kTo = 6;
  HWY_INLINE void operator()(const Register* d, Register* t) const {
    const Register odd = hn::Sub(d[3], d[1]);
    const Register even = hn::Sub(d[4], d[2]);
    t[0] = hn::MulAdd(number(4), d[0], hn::NegMulAdd(number(5), d[2], d[4]));
    t[1] = hn::NegMulAdd(number(4), hn::Add(d[1], d[2]), hn::Add(d[3], d[4]));
    t[2] = hn::MulAdd(number(4), hn::Sub(d[1], d[2]), hn::Sub(d[4], d[3]));
    t[3] = hn::MulAdd(number(2), odd, even);
    t[4] = hn::NegMulAdd(number(2), odd, even);
    t[5] = hn::MulAdd(number(4), d[1], hn::NegMulAdd(number(5), d[3], d[5]));
  }
};

struct ToResult {
  static constexpr int kFrom = 6;
  static constexpr int kTo = 4;
  HWY_INLINE void operator()(const Register* m, Register* y) const {
    const Register sum = hn::Add(m[1], m[2]);
    const Register difference = hn::Sub(m[1], m[2]);
    const Register far_sum = hn::Add(m[3], m[4]);
    const Register far_difference = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(hn::Add(m[0], sum), far_sum);
    y[1] = hn::MulAdd(number(2), far_difference, difference);
    y[2] = hn::MulAdd(number(4), far_sum, sum);
    y[3] = hn::Add(hn::MulAdd(number(8), far_difference, difference), m[5]);
  }
};

struct OfSlope {
  static constexpr int kFrom = 4;
  static constexpr int kTo = 6;
  HWY_INLINE void operator()(const Register* y, Register* z) const {
    const Register even = hn::Add(y[0], y[2]);
    const Register odd = hn::Add(y[1], y[3]);
    const Register far_even = hn::MulAdd(number(4), y[2], y[0]);
    const Register far_odd = hn::MulAdd(number(8), y[3], hn::Add(y[1], y[1]));
    z[0] = y[0];
    z[1] = hn::Add(even, odd);
    z[2] = hn::Sub(even, odd);
    z[3] = hn::Add(far_even, far_odd);
    z[4] = hn::Sub(far_even, far_odd);
    z[5] = y[3];
  }
};

struct OfWeights {
  static constexpr int kFrom = 3;
  static constexpr int kTo = 6;
  HWY_INLINE void operator()(const Register* g, Register* u) const {
    const Register ends = hn::Mul(number(1.0F / 6), hn::Add(g[0], g[2]));
    const Register middle = hn::Mul(number(1.0F / 6), g[1]);
    const Register far_ends = hn::MulAdd(number(1.0F / 24), g[0], hn::Mul(number(1.0F / 6), g[2]));
    const Register far_middle = hn::Mul(number(1.0F / 12), g[1]);
    u[0] = hn::Mul(number(0.25F), g[0]);
    u[1] = hn::Neg(hn::Add(ends, middle));
    u[2] = hn::Sub(middle, ends);
    u[3] = hn::Add(far_ends, far_middle);
    u[4] = hn::Sub(far_ends, far_middle);
    u[5] = g[2];
  }
};

struct ToWeights {
  static constexpr int kFrom = 6;
  static constexpr int kTo = 3;
  HWY_INLINE void operator()(const Register* m, Register* w) const {
    const Register sum = hn::Mul(number(1.0F / 6), hn::Add(m[1], m[2]));
    const Register difference = hn::Mul(number(1.0F / 6), hn::Sub(m[2], m[1]));
    const Register far_sum = hn::Add(m[3], m[4]);
    w[0] = hn::Sub(hn::MulAdd(number(0.25F), m[0], hn::Mul(number(1.0F / 24), far_sum)), sum);
    w[1] = hn::MulAdd(number(1.0F / 12), hn::Sub(m[3], m[4]), difference);
    w[2] = hn::Add(hn::NegMulAdd(number(1), sum, hn::Mul(number(1.0F / 6), far_sum)), m[5]);
  }
};

// Along both dimensions of squares whose elements are `from_line` apart, as many squares side by side as a register
// has lanes.
template <class Line>
HWY_INLINE void transform_one(const float* from, int64_t from_line, float* to, int64_t to_line) {
  Register half[Line::kTo][Line::kFrom];  // by columns
  for (int column = 0; column < Line::kFrom; ++column) {
    Register in[Line::kFrom];
    Register out[Line::kTo];
    for (int row = 0; row < Line::kFrom; ++row)
      in[row] = hn::LoadU(DF(), from + (row * Line::kFrom + column) * from_line);
    Line()(in, out);
    for (int row = 0; row < Line::kTo; ++row) half[row][column] = out[row];
  }
  for (int row = 0; row < Line::kTo; ++row) {
    Register out[Line::kTo];
    Line()(half[row], out);
    for (int column = 0; column < Line::kTo; ++column) {
      hn::StoreU(out[column], DF(), to + (row * Line::kTo + column) * to_line);
    }
  }
}

template <class Line>
void transform(const float* from, int64_t from_line, float* to, int64_t to_line, int64_t count) {
  for (int64_t i = 0; i < count; i += kWidth) transform_one<Line>(from + i, from_line, to + i, to_line);
}

void winograd(Functions& functions) {
  functions.winograd = {transform<OfPatch>, transform<ToResult>, transform<OfSlope>, transform<OfWeights>,
                        transform<ToWeights>};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll::kernels::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::simd {
void add_winograd(Isa isa, Functions& functions) { PLIMSOLL_FOR_ISA(isa, winograd)(functions); }
}  // namespace plimsoll::kernels::simd
#endif

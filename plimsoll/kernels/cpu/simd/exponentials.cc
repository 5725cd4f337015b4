// Exponentials, and what is made of them.
#include "plimsoll/kernels/cpu/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plimsoll/kernels/cpu/simd/exponentials.cc"
#include <hwy/foreach_target.h>

#include "plimsoll/kernels/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fraction
constexpr float kInfinity = __builtin_inff();

// x * 2^n, where n, a whole number, is in the last bits of `moved`.
struct Scale {
  HWY_INLINE Register operator()(Register x, Register moved) const {
    const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(DU(), moved), hn::Set(DU(), 127U)));
    return hn::Mul(x, hn::BitCast(DF(), power));
  }
};

HWY_INLINE Floats exp(const Floats& x) {
  const Floats held = clamp(x, -87.3F, 88.3F);
  const Floats moved = mul_add(held, all(1.44269504F), all(kRound));
  const Floats n = moved - all(kRound);
  const Floats r = mul_add(n, all(2.12194440e-4F), neg_mul_add(n, all(0.693359375F), held));
  Floats p = mul_add(all(1.9875691500e-4F), r, all(1.3981999507e-3F));
  p = mul_add(p, r, all(8.3334519073e-3F));
  p = mul_add(p, r, all(4.1665795894e-2F));
  p = mul_add(p, r, all(1.6666665459e-1F));
  p = mul_add(p, r, all(5.0000001201e-1F));
  const Floats mantissa = mul_add(p * r, r, r) + all(1.0F);
  const Floats y = each(Scale(), mantissa, moved);
  return select(is_above(x, all(88.72F)), all(kInfinity), select(is_below(x, all(-87.3F)), all(0.0F), y));
}

// The whole part of x, which the last bits of `moved` are, to the exponent.
struct Raise {
  HWY_INLINE Register operator()(Register x, Register moved) const {
    return hn::BitCast(DF(), hn::Add(hn::BitCast(DU(), x), hn::ShiftLeft<23>(hn::BitCast(DU(), moved))));
  }
};

// 2^x to 2^-18 of itself, in half the steps; below the smallest normal number anything between that and 0. NaN stays.
HWY_INLINE Floats quick_exp2(const Floats& x) {
  const Floats held = clamp(x, -127.0F, 128.0F);
  const Floats moved = held + all(kRound);
  const Floats r = held - (moved - all(kRound));
  Floats p = mul_add(all(9.5828525e-3F), r, all(5.5906426e-2F));
  p = mul_add(p, r, all(2.4024099e-1F));
  p = mul_add(p, r, all(6.9312419e-1F));
  p = mul_add(p, r, all(1.0F));
  return each(Raise(), p, moved);
}

constexpr float kLog2E = 1.44269504F;

// Of what is read and written as halves there is no more to know.
template <class D>
HWY_INLINE Floats exp_for(const Floats& x) {
  if constexpr (D::kIsLowPrecision) {
    return quick_exp2(x * all(kLog2E));
  } else {
    return exp(x);
  }
}

template <class D>
float largest(const void* x_data, int64_t count) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  Floats a = all(-kInfinity);  // two, so that none waits for the one before
  Floats b = a;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    a = larger(load_wide<D>(x + i), a);
    b = larger(load_wide<D>(x + i + kLanes), b);
  }
  for (; i < count; i += kLanes) {
    const int64_t some = count - i < kLanes ? count - i : kLanes;
    a = larger(some == kLanes ? load_wide<D>(x + i) : load_some<D>(x + i, some, -kInfinity), a);
  }
  float lanes[kLanes];
  store(lanes, larger(a, b));
  float one = -kInfinity;
  for (const float lane : lanes) one = lane > one ? lane : one;
  return one;
}

template <class D>
float sum_of_exp(const void* x_data, int64_t count, float shift) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  Floats total = all(0.0F);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    __builtin_prefetch(x + count + i, 0, 2);  // while the memory has nothing to do
    total = total + exp_for<D>(load_wide<D>(x + i) - all(shift));
  }
  if (i < count) total = total + exp_for<D>(load_some<D>(x + i, count - i, -kInfinity) - all(shift));
  return sum(total);
}

float exp_in_place(float* x, int64_t count, float shift) {
  Floats total = all(0.0F);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats y = exp(load(x + i) - all(shift));
    total = total + y;
    store(x + i, y);
  }
  if (i < count) {
    const Floats y = exp(load_some<F32>(x + i, count - i, -kInfinity) - all(shift));
    total = total + y;
    store_some<F32>(x + i, y, count - i);
  }
  return sum(total);
}

template <class D>
void exp_slope(void* dx, const void* x, int64_t count, float shift, float slope, float share) {
  map<D>(dx, x, count,
         [=](const Floats& v) HWY_ATTR { return all(slope) * (exp_for<D>(v - all(shift)) - all(share)); });
}

constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;

// tanh of what gelu takes it of; to about 1e-7 of 1.
HWY_INLINE Floats gelu_gate(const Floats& x) {
  const Floats inner = all(kGeluScale) * mul_add(all(kGeluCube) * x * x, x, x);
  return all(1.0F) - all(2.0F) / (all(1.0F) + exp(all(2.0F) * inner));
}

// exp(-2 * inner): gelu is x / (1 + that).
HWY_INLINE Floats gelu_rest(const Floats& x) {
  constexpr float kFactor = -2.0F * kLog2E * kGeluScale;
  return quick_exp2(x * mul_add(all(kFactor * kGeluCube), x * x, all(kFactor)));
}

template <class D>
HWY_INLINE Floats gelu_for(const Floats& x) {
  if constexpr (D::kIsLowPrecision) {
    return x * quick_reciprocal(all(1.0F) + gelu_rest(x));
  } else {
    return all(0.5F) * x * (all(1.0F) + gelu_gate(x));
  }
}

template <class D>
void gelu_tanh(void* y, const void* x, int64_t count) {
  map<D>(y, x, count, [](const Floats& v) HWY_ATTR { return gelu_for<D>(v); });
}

template <class D>
HWY_INLINE Floats gelu_slope(const Floats& x) {
  if constexpr (D::kIsLowPrecision) {
    const Floats held = clamp(x, -10.0F, 10.0F);  // beyond, 0 or 1
    const Floats rest = gelu_rest(held);
    const Floats share = quick_reciprocal(all(1.0F) + rest);
    const Floats inner_slope = mul_add(all(6.0F * kGeluScale * kGeluCube), held * held, all(2.0F * kGeluScale));
    return mul_add(held * share * (rest * share), inner_slope, share);
  } else {
    const Floats gate = gelu_gate(x);
    const Floats through = all(0.5F) * x * neg_mul_add(gate, gate, all(1.0F)) * all(kGeluScale);
    const Floats inner_slope = mul_add(all(3.0F * kGeluCube) * x, x, all(1.0F));
    return mul_add(all(0.5F), all(1.0F) + gate, through * inner_slope);
  }
}

template <class D>
void gelu_tanh_backward(void* dx, const void* dy, const void* x, int64_t count) {
  map<D>(dx, dy, x, count, [](const Floats& slope, const Floats& v) HWY_ATTR { return slope * gelu_slope<D>(v); });
}

template <class D>
void add_loops(ElementLoops& loops) {
  loops.largest = largest<D>;
  loops.sum_of_exp = sum_of_exp<D>;
  loops.exp_slope = exp_slope<D>;
  loops.gelu_tanh = gelu_tanh<D>;
  loops.gelu_tanh_backward = gelu_tanh_backward<D>;
}

void exponentials(Functions& functions) {
  functions.largest = largest<F32>;
  functions.exp_in_place = exp_in_place;
  add_loops<F32>(functions.on_f32);
  add_loops<Bf16>(functions.on_bf16);
  add_loops<F16>(functions.on_f16);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll::kernels::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::simd {
void add_exponentials(Isa isa, Functions& functions) { PLIMSOLL_FOR_ISA(isa, exponentials)(functions); }
}  // namespace plimsoll::kernels::simd
#endif

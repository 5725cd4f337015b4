// Exponentials, and what is made of them.
#pragma once

#include "plimsoll/kernels/cpu/simd/body/maps.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

[[gnu::always_inline]] inline float sum(const Floats& vector) {
  float total = 0;
  for (int64_t i = 0; i < kLanes; ++i) total += vector[i];
  return total;
}

[[gnu::always_inline]] inline Floats exp(const Floats& x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fraction
  const Floats held = clamp(x, -87.3F, 88.3F);
  const Floats n = (held * 1.44269504F + kRound) - kRound;
  const Floats r = (held - n * 0.693359375F) + n * 2.12194440e-4F;
  Floats p = Floats{} + 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const Floats mantissa = p * r * r + r + 1.0F;
  const Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  const Floats y = mantissa * load<Floats>(&power);
  return x > 88.72F ? Floats{} + __builtin_inff() : (x < -87.3F ? Floats{} : y);
}

// 2^x to 2^-18 of itself, in half the steps; below the smallest normal number anything between that and 0. NaN stays.
[[gnu::always_inline]] inline Floats quick_exp2(const Floats& x) {
  constexpr float kRound = 12582912.0F;  // as above; the last bits of the sum are then the whole part
  const Floats held = clamp(x, -127.0F, 128.0F);
  const Floats moved = held + kRound;
  const Floats r = held - (moved - kRound);
  Floats p = Floats{} + 9.5828525e-3F;
  p = p * r + 5.5906426e-2F;
  p = p * r + 2.4024099e-1F;
  p = p * r + 6.9312419e-1F;
  p = p * r + 1.0F;
  return from_bits(bits(p) + (bits(moved) << 23));
}

constexpr float kLog2E = 1.44269504F;

// Of what is read and written as halves there is no more to know.
template <class D>
[[gnu::always_inline]] inline Floats exp_for(const Floats& x) {
  if constexpr (D::kIsHalf) {
    return quick_exp2(x * kLog2E);
  } else {
    return exp(x);
  }
}

template <class D>
float largest(const void* x_data, int64_t count) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  Floats most[4];  // none waits for the one before
  for (Floats& each : most) each = Floats{} - __builtin_inff();
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int64_t k = 0; k < 4; ++k) most[k] = larger(load_wide<D>(x + i + k * kLanes), most[k]);
  }
  for (; i < count; i += kLanes) {
    const int64_t some = count - i < kLanes ? count - i : kLanes;
    most[0] = larger(load_some<D>(x + i, some, -__builtin_inff()), most[0]);
  }
  const Floats all = larger(larger(most[0], most[1]), larger(most[2], most[3]));
  float one = -__builtin_inff();
  for (int64_t lane = 0; lane < kLanes; ++lane) one = all[lane] > one ? all[lane] : one;
  return one;
}

template <class D>
float sum_of_exp(const void* x_data, int64_t count, float shift) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  Floats total = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    __builtin_prefetch(x + count + i, 0, 2);  // while the memory has nothing to do
    total += exp_for<D>(load_wide<D>(x + i) - shift);
  }
  if (i < count) total += exp_for<D>(load_some<D>(x + i, count - i, -__builtin_inff()) - shift);
  return sum(total);
}

float exp_in_place(float* x, int64_t count, float shift) {
  Floats total = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats y = exp(load<Floats>(x + i) - shift);
    total += y;
    store(x + i, y);
  }
  if (i < count) {
    const Floats y = exp(load_some<F32>(x + i, count - i, -__builtin_inff()) - shift);
    total += y;
    store_some<F32>(x + i, y, count - i);
  }
  return sum(total);
}

template <class D>
void exp_slope(void* dx, const void* x, int64_t count, float shift, float slope, float share) {
  map<D>(dx, x, count, [=](const Floats& v) { return slope * (exp_for<D>(v - shift) - share); });
}

constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;

// tanh of what gelu takes it of; to about 1e-7 of 1.
[[gnu::always_inline]] inline Floats gelu_gate(const Floats& x) {
  const Floats inner = kGeluScale * (x + kGeluCube * x * x * x);
  return 1.0F - 2.0F / (1.0F + exp(2.0F * inner));
}

// exp(-2 * inner): gelu is x / (1 + that).
[[gnu::always_inline]] inline Floats gelu_rest(const Floats& x) {
  constexpr float kFactor = -2.0F * kLog2E * kGeluScale;
  return quick_exp2(x * (kFactor + kFactor * kGeluCube * (x * x)));
}

template <class D>
[[gnu::always_inline]] inline Floats gelu_for(const Floats& x) {
  if constexpr (D::kIsHalf) {
    return x * quick_reciprocal(1.0F + gelu_rest(x));
  } else {
    return 0.5F * x * (1.0F + gelu_gate(x));
  }
}

template <class D>
void gelu_tanh(void* y, const void* x, int64_t count) {
  map<D>(y, x, count, [](const Floats& v) { return gelu_for<D>(v); });
}

template <class D>
[[gnu::always_inline]] inline Floats gelu_slope(const Floats& x) {
  if constexpr (D::kIsHalf) {
    const Floats held = clamp(x, -10.0F, 10.0F);  // beyond, 0 or 1
    const Floats rest = gelu_rest(held);
    const Floats share = quick_reciprocal(1.0F + rest);
    const Floats inner_slope = 2.0F * kGeluScale + 6.0F * kGeluScale * kGeluCube * (held * held);
    return share + held * share * (rest * share) * inner_slope;
  } else {
    const Floats gate = gelu_gate(x);
    return 0.5F * (1.0F + gate) + 0.5F * x * (1.0F - gate * gate) * kGeluScale * (1.0F + 3.0F * kGeluCube * x * x);
  }
}

template <class D>
void gelu_tanh_backward(void* dx, const void* dy, const void* x, int64_t count) {
  map<D>(dx, dy, x, count, [](const Floats& slope, const Floats& v) { return slope * gelu_slope<D>(v); });
}

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

// Exponentials, and what is made of them.
#pragma once

#include "plimsoll/kernels/cpu/simd/body/vectors.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

[[gnu::always_inline]] inline Floats load_some(const float* from, int64_t count, float rest) {
  Floats vector = Floats{} + rest;
  for (int64_t i = 0; i < count; ++i) vector[i] = from[i];
  return vector;
}

[[gnu::always_inline]] inline void store_some(float* to, const Floats& vector, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = vector[i];
}

[[gnu::always_inline]] inline float sum(const Floats& vector) {
  float total = 0;
  for (int64_t i = 0; i < kLanes; ++i) total += vector[i];
  return total;
}

[[gnu::always_inline]] inline Floats exp(const Floats& x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fraction
  const Floats low = x < -87.3F ? Floats{} - 87.3F : x;
  const Floats held = low > 88.3F ? Floats{} + 88.3F : low;
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

float largest(const float* x, int64_t count) {
  Floats most = Floats{} - __builtin_inff();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto v = load<Floats>(x + i);
    most = v > most ? v : most;
  }
  float one = -__builtin_inff();
  for (int64_t lane = 0; lane < kLanes; ++lane) one = most[lane] > one ? most[lane] : one;
  for (; i < count; ++i) one = x[i] > one ? x[i] : one;
  return one;
}

float sum_of_exp(const float* x, int64_t count, float shift) {
  Floats total = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) total += exp(load<Floats>(x + i) - shift);
  if (i < count) total += exp(load_some(x + i, count - i, -__builtin_inff()) - shift);
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
    const Floats y = exp(load_some(x + i, count - i, -__builtin_inff()) - shift);
    total += y;
    store_some(x + i, y, count - i);
  }
  return sum(total);
}

// Calls f(x) with vectors of x for vectors of y; what is left of the last ones is not stored.
template <class F>
[[gnu::always_inline]] inline void map(float* y, const float* x, int64_t count, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, f(load<Floats>(x + i)));
  if (i < count) store_some(y + i, f(load_some(x + i, count - i, 0)), count - i);
}

void exp_slope(float* dx, const float* x, int64_t count, float shift, float slope, float share) {
  map(dx, x, count, [=](const Floats& v) { return slope * (exp(v - shift) - share); });
}

constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;

// tanh of what gelu takes it of; to about 1e-7 of 1.
[[gnu::always_inline]] inline Floats gelu_gate(const Floats& x) {
  const Floats inner = kGeluScale * (x + kGeluCube * x * x * x);
  return 1.0F - 2.0F / (1.0F + exp(2.0F * inner));
}

void gelu_tanh(float* y, const float* x, int64_t count) {
  map(y, x, count, [](const Floats& v) { return 0.5F * v * (1.0F + gelu_gate(v)); });
}

[[gnu::always_inline]] inline Floats gelu_slope(const Floats& x) {
  const Floats gate = gelu_gate(x);
  return 0.5F * (1.0F + gate) + 0.5F * x * (1.0F - gate * gate) * kGeluScale * (1.0F + 3.0F * kGeluCube * x * x);
}

void gelu_tanh_backward(float* dx, const float* dy, const float* x, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(dx + i, load<Floats>(dy + i) * gelu_slope(load<Floats>(x + i)));
  if (i == count) return;
  const Floats slope = gelu_slope(load_some(x + i, count - i, 0));
  store_some(dx + i, load_some(dy + i, count - i, 0) * slope, count - i);
}

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

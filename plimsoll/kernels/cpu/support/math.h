// Functions that compilers can turn into vector code, where the library's would be a call for each element.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace plimsoll::kernels {

// e^x to about 2 units in the last place; denormal results are 0. NaN stays.
[[gnu::always_inline]] inline float fast_exp(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fraction
  const float held = x < -87.3F ? -87.3F : x > 88.3F ? 88.3F : x;
  const float n = (held * 1.44269504F + kRound) - kRound;
  const float r = (held - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float mantissa = p * r * r + r + 1.0F;
  const float power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  const float y = mantissa * power;
  return x > 88.72F ? std::numeric_limits<float>::infinity() : x < -87.3F ? 0.0F : y;
}

[[gnu::always_inline]] inline float fast_sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

// To about 1e-7 of 1, not of the result: for use inside sums.
[[gnu::always_inline]] inline float fast_tanh(float x) { return 1.0F - 2.0F / (1.0F + fast_exp(2.0F * x)); }

}  // namespace plimsoll::kernels

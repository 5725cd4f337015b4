// f16 and bf16 as the bits that they are, to and from float. Rounds to nearest, halves to even; NaN and infinities
// stay.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace plimsoll::kernels {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

inline float from_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  if (magnitude >= 0x400U) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  const float small = static_cast<float>(magnitude) * 0x1p-24F;  // denormal
  return sign == 0 ? small : -small;
}

inline uint16_t to_f16(float x) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16 & 0x8000U);
  const float size = std::abs(x);
  if (std::isnan(x)) return sign | 0x7E00U;
  if (size >= 65520.0F) return sign | 0x7C00U;
  if (size < 0x1p-14F) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24F)));
  const uint32_t bits = std::bit_cast<uint32_t>(size) - 0x38000000U;
  return static_cast<uint16_t>(sign | (bits + 0xFFFU + (bits >> 13 & 1U)) >> 13);
}

}  // namespace plimsoll::kernels

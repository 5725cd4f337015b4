// Numbers as bytes: x is about scale * q, with q a whole number from -127 to 127 (i8), or from 0 to 255 (u8) for
// numbers that are not negative. One scale serves a whole row of numbers, and the largest of them in size takes the
// largest byte.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "plimsoll/base/dtype.h"

namespace plimsoll::program {

inline bool is_quantized(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }

constexpr int64_t least_byte(DType dtype) { return dtype == DType::u8 ? 0 : -127; }
constexpr int64_t largest_byte(DType dtype) { return dtype == DType::u8 ? 255 : 127; }

// So many products of bytes have a sum that 32 bits hold, whatever the bytes are.
inline constexpr int64_t kMostProducts = 1 << 16;

template <class T>
struct RowScale {
  T scale;
  T inverse;  // of the scale; 0, so that all bytes are, where a row is zero or not finite
};

// For a row whose largest number in size is this one; NaN where one of them is, which makes the scale NaN, too.
template <class T>
RowScale<T> row_scale(T largest, DType dtype) {
  const T most = static_cast<T>(largest_byte(dtype));
  const T inverse = most / largest;
  return {largest / most, std::isfinite(inverse) ? inverse : T(0)};
}

// Rounded to nearest, ties to even.
template <class T>
int64_t to_byte(T x, T inverse, DType dtype) {
  const T scaled = std::nearbyint(x * inverse);
  if (std::isnan(scaled)) return 0;
  return std::clamp(static_cast<int64_t>(scaled), least_byte(dtype), largest_byte(dtype));
}

// The largest in size; NaN where there is one.
template <class T>
T largest_in_size(std::span<const T> row) {
  T largest = 0;
  for (const T x : row) {
    if (!(std::abs(x) <= largest)) largest = std::abs(x);
    if (std::isnan(largest)) break;
  }
  return largest;
}

// A row of weights as i8. Returns its scale.
float quantize_row(std::span<const float> row, std::span<int8_t> into);

}  // namespace plimsoll::program

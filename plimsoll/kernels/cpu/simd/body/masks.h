// ReLU and its gradient, with a bit for each element.
#pragma once

#include "plimsoll/kernels/cpu/simd/body/vectors.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

constexpr int64_t kBits = 8;

// A bit for each lane that is not zero.
[[gnu::always_inline]] inline unsigned bits_of(const Ints& lanes) {
#if defined(__AVX512DQ__)
  return _mm512_movepi32_mask(reinterpret_cast<const __m512i&>(lanes));
#else
  unsigned bits = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) bits |= (static_cast<unsigned>(lanes[lane]) & 1U) << lane;
  return bits;
#endif
}

// All bits of a lane where its bit is set.
[[gnu::always_inline]] inline Ints lanes_of(unsigned bits) {
  constexpr Ints kEach = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return ((Ints{} + static_cast<int32_t>(bits)) & kEach) != 0;
}

template <class D>
void relu(void* y_data, uint8_t* mask, const void* x_data, int64_t count) {
  using Vector = typename D::Vector;
  const auto* x = static_cast<const typename D::Element*>(x_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  const auto apply = [](const Vector& raw, unsigned& bits) __attribute__((always_inline)) {
    const Floats v = D::widen(raw);
    bits = bits_of(v > 0.0F);
    return D::zero_where(v < 0.0F, raw);
  };
  unsigned bits = 0;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(y + i, apply(load<Vector>(x + i), bits));
    if (mask != nullptr) store(mask + i / kBits, static_cast<uint16_t>(bits));
  }
  if (i == count) return;
  Vector last = {};
  for (int64_t lane = 0; i + lane < count; ++lane) last[lane] = x[i + lane];
  last = apply(last, bits);
  for (int64_t lane = 0; i + lane < count; ++lane) y[i + lane] = last[lane];
  for (int64_t byte = 0; mask != nullptr && i + byte * kBits < count; ++byte) {
    mask[i / kBits + byte] = static_cast<uint8_t>(bits >> byte * kBits);
  }
}

template <class D>
void keep(void* dx_data, const void* dy_data, const uint8_t* mask, int64_t count) {
  using Vector = typename D::Vector;
  const auto* dy = static_cast<const typename D::Element*>(dy_data);
  auto* dx = static_cast<typename D::Element*>(dx_data);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const unsigned bits = load<uint16_t>(mask + i / kBits);
    store(dx + i, D::zero_where(~lanes_of(bits), load<Vector>(dy + i)));
  }
  for (; i < count; ++i) dx[i] = (mask[i / kBits] >> i % kBits & 1U) != 0 ? dy[i] : typename D::Element{};
}

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

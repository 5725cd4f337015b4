// Vectors of kLanes numbers, and elements of f32, bf16 and f16 as such.
#pragma once

#include "plimsoll/kernels/cpu/simd/simd.h"

#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

using Floats [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Ints [[gnu::vector_size(kLanes * sizeof(int32_t))]] = int32_t;
using Bytes [[gnu::vector_size(kLanes)]] = uint8_t;
using Words [[gnu::vector_size(kLanes * sizeof(uint32_t))]] = uint32_t;
using Halves [[gnu::vector_size(kLanes * sizeof(uint16_t))]] = uint16_t;

template <class Vector, class Element>
[[gnu::always_inline]] inline Vector load(const Element* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class Vector, class Element>
[[gnu::always_inline]] inline void store(Element* to, const Vector& vector) {
  __builtin_memcpy(to, &vector, sizeof vector);
}

// Where it is `past` the caches, not through them: `to` must then be aligned as the vector is, and other threads see it
// after finish_past.
template <class Vector, class Element>
[[gnu::always_inline]] inline void store_past(Element* to, const Vector& vector, [[maybe_unused]] bool past) {
#if defined(__AVX512DQ__)
  if constexpr (sizeof vector == sizeof(__m512i)) {
    if (past) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), load<__m512i>(&vector));
  } else {
    if (past) return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), load<__m256i>(&vector));
  }
#endif
  store(to, vector);
}

[[gnu::always_inline]] inline void finish_past([[maybe_unused]] bool past) {
#if defined(__AVX512DQ__)
  if (past) _mm_sfence();
#endif
}

// ---- between widths ----

#if defined(__AVX512DQ__)

constexpr __mmask16 kAllLanes = 0xFFFF;

// One instruction, where compilers make several of __builtin_convertvector, or take the vector apart.
[[gnu::always_inline]] inline Ints from_bytes(const Bytes& x) {
  const __m512i wide = _mm512_maskz_cvtepu8_epi32(kAllLanes, load<__m128i>(&x));
  return load<Ints>(&wide);
}

[[gnu::always_inline]] inline Bytes to_bytes(const Ints& x) {
  const __m128i narrow = _mm512_maskz_cvtepi32_epi8(kAllLanes, load<__m512i>(&x));
  return load<Bytes>(&narrow);
}

[[gnu::always_inline]] inline Words from_halves(const Halves& x) {
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAllLanes, load<__m256i>(&x));
  return load<Words>(&wide);
}

[[gnu::always_inline]] inline Halves to_halves(const Words& x) {
  const __m256i narrow = _mm512_maskz_cvtepi32_epi16(kAllLanes, load<__m512i>(&x));
  return load<Halves>(&narrow);
}

#else

[[gnu::always_inline]] inline Ints from_bytes(const Bytes& x) { return __builtin_convertvector(x, Ints); }
[[gnu::always_inline]] inline Bytes to_bytes(const Ints& x) { return __builtin_convertvector(x, Bytes); }
[[gnu::always_inline]] inline Words from_halves(const Halves& x) { return __builtin_convertvector(x, Words); }
[[gnu::always_inline]] inline Halves to_halves(const Words& x) { return __builtin_convertvector(x, Halves); }

#endif

// ---- halves ----

[[gnu::always_inline]] inline Words bits(const Floats& x) { return load<Words>(&x); }
[[gnu::always_inline]] inline Floats from_bits(const Words& x) { return load<Floats>(&x); }

[[gnu::always_inline]] inline Floats from_bf16(const Halves& x) { return from_bits(from_halves(x) << 16); }

[[gnu::always_inline]] inline Halves to_bf16(const Floats& x) {
  const Words b = bits(x);
  const Words rounded = b + 0x7FFFU + (b >> 16 & 1U);
  const Words quiet = b | 0x400000U;
  return to_halves((x != x ? quiet : rounded) >> 16);  // NOLINT(misc-redundant-expression)
}

#if defined(__AVX512DQ__)

[[gnu::always_inline]] inline Floats from_f16(const Halves& x) {
  const __m512 wide = _mm512_maskz_cvtph_ps(kAllLanes, load<__m256i>(&x));
  return load<Floats>(&wide);
}

[[gnu::always_inline]] inline Halves to_f16(const Floats& x) {
  const __m256i half = _mm512_maskz_cvtps_ph(kAllLanes, load<__m512>(&x), _MM_FROUND_TO_NEAREST_INT);
  return load<Halves>(&half);
}

#else

[[gnu::always_inline]] inline Floats from_f16(const Halves& x) {
  const Words b = from_halves(x);
  const Words shifted = (b & 0x7FFFU) << 13;
  const Words sized = bits(from_bits(shifted) * 0x1p112F);  // of small ones, too: they are denormal here
  const Words size = (b & 0x7FFFU) >= 0x7C00U ? shifted | 0x7F800000U : sized;
  return from_bits(size | (b & 0x8000U) << 16);
}

[[gnu::always_inline]] inline Halves to_f16(const Floats& x) {
  const Words b = bits(x);
  const Words size = b & 0x7FFFFFFFU;
  const Words normal = (size - 0x38000000U + 0xFFFU + (size >> 13 & 1U)) >> 13;
  const Words small = bits(from_bits(size) + 0.5F) - 0x3F000000U;  // what is below 2^-24 is rounded away
  const Words finite = size < 0x38800000U ? small : normal;
  const Words held = size >= 0x477FF000U ? Words{} + 0x7C00U : finite;
  const Words all = size > 0x7F800000U ? Words{} + 0x7E00U : held;
  return to_halves(all | (b >> 16 & 0x8000U));
}

#endif

// ---- elements of one dtype ----

struct F32 {
  using Element = float;
  using Vector = Floats;
  [[gnu::always_inline]] static Floats widen(const Floats& x) { return x; }
  [[gnu::always_inline]] static Floats narrow(const Floats& x) { return x; }
  [[gnu::always_inline]] static Floats zero_where(const Ints& lanes, const Floats& x) { return lanes ? Floats{} : x; }
};

template <Floats (*From)(const Halves&), Halves (*To)(const Floats&)>
struct Half {
  using Element = uint16_t;
  using Vector = Halves;
  [[gnu::always_inline]] static Floats widen(const Halves& x) { return From(x); }
  [[gnu::always_inline]] static Halves narrow(const Floats& x) { return To(x); }
  [[gnu::always_inline]] static Halves zero_where(const Ints& lanes, const Halves& x) {
    return x & ~to_halves(load<Words>(&lanes));
  }
};

using Bf16 = Half<from_bf16, to_bf16>;
using F16 = Half<from_f16, to_f16>;

template <class D>
[[gnu::always_inline]] inline Floats load_wide(const typename D::Element* from) {
  return D::widen(load<typename D::Vector>(from));
}

template <class D>
[[gnu::always_inline]] inline void store_wide(typename D::Element* to, const Floats& x) {
  store(to, D::narrow(x));
}

// y = Convert(x), in vectors of From; the last, which may be cut short, through one of their own.
template <auto Convert, class From, class X, class Y>
void convert(Y* y, const X* x, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, Convert(load<From>(x + i)));
  From last = {};
  for (int64_t lane = 0; i + lane < count; ++lane) last[lane] = x[i + lane];
  const auto converted = Convert(last);
  for (int64_t lane = 0; i + lane < count; ++lane) y[i + lane] = converted[lane];
}

template <Floats (*From)(const Halves&)>
void widen(float* y, const uint16_t* x, int64_t count) {
  convert<From, Halves>(y, x, count);
}

template <Halves (*To)(const Floats&)>
void narrow(uint16_t* y, const float* x, int64_t count) {
  convert<To, Floats>(y, x, count);
}

template <Floats (*From)(const Halves&)>
void widen_lanes(float* y, const uint16_t* x, int64_t step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) store(y + i * kLanes, From(load<Halves>(x + i * step)));
}

template <Halves (*To)(const Floats&)>
void narrow_lanes(uint16_t* y, int64_t step, const float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) store(y + i * step, To(load<Floats>(x + i * kLanes)));
}

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

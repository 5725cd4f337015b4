// The code of simd.h, compiled into the namespace PLIMSOLL_SIMD by the file that includes it.
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

// ---- halves ----

[[gnu::always_inline]] inline Words bits(const Floats& x) { return load<Words>(&x); }
[[gnu::always_inline]] inline Floats from_bits(const Words& x) { return load<Floats>(&x); }

[[gnu::always_inline]] inline Floats from_bf16(const Halves& x) {
  return from_bits(__builtin_convertvector(x, Words) << 16);
}

[[gnu::always_inline]] inline Halves to_bf16(const Floats& x) {
  const Words b = bits(x);
  const Words rounded = b + 0x7FFFU + (b >> 16 & 1U);
  const Words quiet = b | 0x400000U;
  return __builtin_convertvector((x != x ? quiet : rounded) >> 16, Halves);  // NOLINT(misc-redundant-expression)
}

#if defined(__AVX512DQ__)

constexpr __mmask16 kAllLanes = 0xFFFF;

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
  const Words b = __builtin_convertvector(x, Words);
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
  return __builtin_convertvector(all | (b >> 16 & 0x8000U), Halves);
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
    return x & ~__builtin_convertvector(lanes, Halves);
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

// ---- products ----

// R rows by V vectors of c, kept in registers over the whole inner dimension.
template <int R, int V>
[[gnu::always_inline]] inline void block(const TileProduct& p, int64_t row, int64_t column) {
  Floats sums[R][V] = {};
  for (int r = 0; p.add && r < R; ++r) {
    for (int v = 0; v < V; ++v) sums[r][v] = load<Floats>(p.c + (row + r) * p.c_row + column + v * kLanes);
  }
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column;
  for (int64_t k = 0; k < p.inner; ++k) {
    Floats line[V];
    for (int v = 0; v < V; ++v) line[v] = load<Floats>(b + k * p.b_row + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const float factor = a[r * p.a_row + k * p.a_step];
      for (int v = 0; v < V; ++v) sums[r][v] += factor * line[v];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) store(p.c + (row + r) * p.c_row + column + v * kLanes, sums[r][v]);
  }
}

template <int V>
[[gnu::always_inline]] inline void columns_block(const TileProduct& p, int64_t column) {
  int64_t row = 0;
  for (; row + 6 <= p.rows; row += 6) block<6, V>(p, row, column);
  for (; row + 2 <= p.rows; row += 2) block<2, V>(p, row, column);
  for (; row < p.rows; ++row) block<1, V>(p, row, column);
}

// What is left of a width that is no multiple of a vector.
void last_columns(const TileProduct& p, int64_t first) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = first; column < p.columns; ++column) {
      float sum = p.add ? p.c[row * p.c_row + column] : 0;
      for (int64_t k = 0; k < p.inner; ++k) sum += p.a[row * p.a_row + k * p.a_step] * p.b[k * p.b_row + column];
      p.c[row * p.c_row + column] = sum;
    }
  }
}

void multiply(const TileProduct& p) {
  int64_t column = 0;
  for (; column + 4 * kLanes <= p.columns; column += 4 * kLanes) columns_block<4>(p, column);
  for (; column + kLanes <= p.columns; column += kLanes) columns_block<1>(p, column);
  last_columns(p, column);
}

// ---- transposes ----

template <int64_t... kLane>
struct LaneList {};
using AllLanes = LaneList<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;

// Exchanges the upper right with the lower left square of size D, in all squares of twice that size that the two rows,
// which are D apart, go through.
template <int64_t D, int64_t... kLane>
[[gnu::always_inline]] inline void exchange(Floats& upper, Floats& lower, LaneList<kLane...> /*lanes*/) {
  const Floats first = __builtin_shufflevector(upper, lower, ((kLane & D) == 0 ? kLane : kLanes + kLane - D)...);
  lower = __builtin_shufflevector(upper, lower, ((kLane & D) == 0 ? kLane + D : kLanes + kLane)...);
  upper = first;
}

template <int64_t D>
[[gnu::always_inline]] inline void exchange_squares(Floats* rows) {
  for (int64_t row = 0; row < kLanes; ++row) {
    if ((row & D) == 0) exchange<D>(rows[row], rows[row + D], AllLanes{});
  }
}

[[gnu::always_inline]] inline void transpose_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Floats rows[kLanes];
  for (int64_t row = 0; row < kLanes; ++row) rows[row] = load<Floats>(from + row * from_row);
  exchange_squares<8>(rows);
  exchange_squares<4>(rows);
  exchange_squares<2>(rows);
  exchange_squares<1>(rows);
  for (int64_t row = 0; row < kLanes; ++row) store(to + row * to_row, rows[row]);
}

void transpose(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
  const int64_t whole_rows = rows / kLanes * kLanes;
  const int64_t whole_columns = columns / kLanes * kLanes;
  for (int64_t row = 0; row < whole_rows; row += kLanes) {
    for (int64_t column = 0; column < whole_columns; column += kLanes) {
      transpose_square(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row < whole_rows ? whole_columns : 0;
    for (int64_t column = first; column < columns; ++column) to[column * to_row + row] = from[row * from_row + column];
  }
}

// ---- bits ----

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

// ---- exponentials ----

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

// ---- pools ----

// Calls f(place in x, number of the tap) for each tap of a window.
template <class F>
[[gnu::always_inline]] inline void for_each_tap(const PoolPlane& p, const Reach& a, const Reach& b, const Reach& c,
                                                const F& f) {
  const auto& [depth, height, width] = p.axes;
  for (int64_t i = a.first; i < a.end; ++i) {
    const int64_t slab = (a.start + i * depth.step) * height.size;
    for (int64_t j = b.first; j < b.end; ++j) {
      const int64_t row = (slab + b.start + j * height.step) * width.size;
      const int64_t number = (i * height.kernel + j) * width.kernel;
      for (int64_t k = c.first; k < c.end; ++k) {
        const int64_t at = row + c.start + k * width.step;
        f(at, static_cast<int32_t>(p.numbers_plane ? at : number + k));
      }
    }
  }
}

// Calls f(place in y, reaches along the three dimensions) for each window of a plane.
template <class F>
[[gnu::always_inline]] inline void for_each_window(const PoolPlane& p, const F& f) {
  int64_t place = 0;
  for (int64_t i = 0; i < p.axes[0].count; ++i) {
    for (int64_t j = 0; j < p.axes[1].count; ++j) {
      for (int64_t k = 0; k < p.axes[2].count; ++k) {
        f(place++, p.axes[0].windows[i], p.axes[1].windows[j], p.axes[2].windows[k]);
      }
    }
  }
}

// Where a row of dx is summed up in f32: where it is to be, or in a room, from which it is then written.
[[gnu::always_inline]] inline float* sums_of(float* row, float* /*room*/) { return row; }
[[gnu::always_inline]] inline float* sums_of(uint16_t* /*row*/, float* room) { return room; }

// Makes dx a row at a time, so that it is written once. Calls f(place of the row, hits along the first two dimensions,
// sums) for each row of windows that sees it; f adds to the sums what they give.
template <class D, class F>
[[gnu::always_inline]] inline void for_each_row_of_x(const PoolPlane& p, typename D::Element* dx, float* room,
                                                     const F& f) {
  const auto& [depth, height, width] = p.axes;
  for (int64_t i = 0; i < depth.size; ++i) {
    for (int64_t j = 0; j < height.size; ++j) {
      const int64_t place = (i * height.size + j) * width.size;
      typename D::Element* row = dx + place * p.width;
      float* sums = sums_of(row, room);
      for (int64_t at = 0; at < width.size * p.groups; ++at) store(sums + at * kLanes, Floats{});
      for (int64_t a = depth.first_hit[i]; a < depth.first_hit[i + 1]; ++a) {
        for (int64_t b = height.first_hit[j]; b < height.first_hit[j + 1]; ++b) {
          f(place, depth.hits[a], height.hits[b], sums);
        }
      }
      if (static_cast<void*>(sums) == static_cast<void*>(row)) continue;
      for (int64_t at = 0; at < width.size; ++at) {
        for (int64_t group = 0; group < p.groups; ++group) {
          const auto sum = load<Floats>(sums + (at * p.groups + group) * kLanes);
          store_wide<D>(row + at * p.width + group * kLanes, sum);
        }
      }
    }
  }
}

[[gnu::always_inline]] inline void store_index(int32_t* to, const Ints& index) { store(to, index); }
[[gnu::always_inline]] inline void store_index(uint8_t* to, const Ints& index) {
  store(to, __builtin_convertvector(index, Bytes));
}
[[gnu::always_inline]] inline Ints load_index(const int32_t* from) { return load<Ints>(from); }
[[gnu::always_inline]] inline Ints load_index(const uint8_t* from) {
  return __builtin_convertvector(load<Bytes>(from), Ints);
}

// Planes are copied, so that the compiler knows that no store changes them.

template <class D, class Index>
void max_pool(const PoolPlane& plane, const void* x_data, void* y_data, Index* indices) {
  const PoolPlane p = plane;
  const auto* x = static_cast<const typename D::Element*>(x_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  for_each_window(p, [&](int64_t place, const Reach& a, const Reach& b, const Reach& c) {
    for (int64_t group = 0; group < p.groups; ++group) {
      Floats largest = Floats{} - __builtin_inff();
      Ints index = Ints{} - 1;
      for_each_tap(p, a, b, c, [&](int64_t at, int32_t number) {
        const Floats tap = load_wide<D>(x + at * p.width + group * kLanes);
        const Ints is_nan = tap != tap;  // NOLINT(misc-redundant-expression)
        const Ints takes = (index < 0) | (tap > largest) | is_nan;
        largest = takes ? tap : largest;
        index = takes ? Ints{} + number : index;
      });
      store_wide<D>(y + place * p.width + group * kLanes, largest);
      if (indices == nullptr) continue;
      store_index(indices + group * p.index_group + place * kLanes, index < 0 ? Ints{} : index);
    }
  });
}

// Every tap looks whether it was the largest.
template <class D, class Index>
void max_pool_backward(const PoolPlane& plane, const void* dy_data, const Index* indices, void* dx_data, float* room) {
  const PoolPlane p = plane;
  const auto* dy = static_cast<const typename D::Element*>(dy_data);
  const PoolAxis& width = p.axes[2];
  for_each_row_of_x<D>(
      p, static_cast<typename D::Element*>(dx_data),
      room, [&](int64_t row, const Hit& a, const Hit& b, float* sums) __attribute__((always_inline)) {
        const int64_t windows = (a.window * p.axes[1].count + b.window) * width.count;
        const int64_t taps = (a.tap * p.axes[1].kernel + b.tap) * width.kernel;
        for (int64_t c = 0; c < width.count; ++c) {
          const Reach reach = width.windows[c];
          for (int64_t group = 0; group < p.groups; ++group) {
            const Floats slopes = load_wide<D>(dy + (windows + c) * p.width + group * kLanes);
            const Ints largest = load_index(indices + group * p.index_group + (windows + c) * kLanes);
            for (int64_t k = reach.first; k < reach.end; ++k) {
              const int64_t at = reach.start + k * width.step;
              const auto number = static_cast<int32_t>(p.numbers_plane ? row + at : taps + k);
              float* to = sums + (at * p.groups + group) * kLanes;
              store(to, load<Floats>(to) + (largest == number ? slopes : Floats{}));
            }
          }
        }
      });
}

template <class D>
void average_pool(const PoolPlane& plane, const void* x_data, void* y_data) {
  const PoolPlane p = plane;
  const auto* x = static_cast<const typename D::Element*>(x_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  for_each_window(p, [&](int64_t place, const Reach& a, const Reach& b, const Reach& c) {
    const auto divisor = static_cast<float>(a.divisor * b.divisor * c.divisor);
    for (int64_t group = 0; group < p.groups; ++group) {
      Floats sum = {};
      for_each_tap(p, a, b, c, [&](int64_t at, int32_t) { sum += load_wide<D>(x + at * p.width + group * kLanes); });
      store_wide<D>(y + place * p.width + group * kLanes, sum / divisor);
    }
  });
}

template <class D>
void average_pool_backward(const PoolPlane& plane, const void* dy_data, void* dx_data, float* room) {
  const PoolPlane p = plane;
  const auto* dy = static_cast<const typename D::Element*>(dy_data);
  const PoolAxis& width = p.axes[2];
  for_each_row_of_x<D>(
      p, static_cast<typename D::Element*>(dx_data),
      room, [&](int64_t, const Hit& a, const Hit& b, float* sums) __attribute__((always_inline)) {
        const int64_t windows = (a.window * p.axes[1].count + b.window) * width.count;
        const int64_t divisor = p.axes[0].windows[a.window].divisor * p.axes[1].windows[b.window].divisor;
        for (int64_t c = 0; c < width.count; ++c) {
          const Reach reach = width.windows[c];
          for (int64_t group = 0; group < p.groups; ++group) {
            const Floats slopes = load_wide<D>(dy + (windows + c) * p.width + group * kLanes);
            const Floats share = slopes / static_cast<float>(divisor * reach.divisor);
            for (int64_t k = reach.first; k < reach.end; ++k) {
              float* to = sums + ((reach.start + k * width.step) * p.groups + group) * kLanes;
              store(to, load<Floats>(to) + share);
            }
          }
        }
      });
}

// ---- rows of channels ----

// Calls f(channel, place) for each vector of channels of each row.
template <class F>
[[gnu::always_inline]] inline void for_each_row(int64_t rows, int64_t width, const F& f) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t channel = 0; channel < width; channel += kLanes) f(channel, row * width + channel);
  }
}

// sums += f(channel, place) over the rows, a few of them at a time.
template <class F>
[[gnu::always_inline]] inline void add_rows(float* sums, int64_t rows, int64_t width, const F& f) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (int64_t channel = 0; channel < width; channel += kLanes) {
      const int64_t at = row * width + channel;
      const Floats early = f(channel, at) + f(channel, at + width);
      const Floats late = f(channel, at + 2 * width) + f(channel, at + 3 * width);
      store(sums + channel, load<Floats>(sums + channel) + (early + late));
    }
  }
  for (; row < rows; ++row) {
    for (int64_t channel = 0; channel < width; channel += kLanes) {
      store(sums + channel, load<Floats>(sums + channel) + f(channel, row * width + channel));
    }
  }
}

void sum_channels(float* sums, const uint16_t* x, int64_t rows, int64_t width) {
  add_rows(sums, rows, width, [&](int64_t, int64_t at) { return load_wide<Bf16>(x + at); });
}

void sum_squares(float* sums, const uint16_t* x, const float* mean, int64_t rows, int64_t width) {
  add_rows(sums, rows, width, [&](int64_t channel, int64_t at) {
    const Floats centred = load_wide<Bf16>(x + at) - load<Floats>(mean + channel);
    return centred * centred;
  });
}

void sum_slopes(float* sums, float* products, const uint16_t* dy, const uint16_t* x, const float* mean, int64_t rows,
                int64_t width) {
  sum_channels(sums, dy, rows, width);
  add_rows(products, rows, width, [&](int64_t channel, int64_t at) {
    return load_wide<Bf16>(dy + at) * (load_wide<Bf16>(x + at) - load<Floats>(mean + channel));
  });
}

void affine(uint16_t* y, const uint16_t* x, const float* mean, const float* scale, const float* shift, int64_t rows,
            int64_t width) {
  for_each_row(rows, width, [&](int64_t channel, int64_t at) {
    const Floats centred = load_wide<Bf16>(x + at) - load<Floats>(mean + channel);
    store_wide<Bf16>(y + at, centred * load<Floats>(scale + channel) + load<Floats>(shift + channel));
  });
}

void gradient(uint16_t* dx, const uint16_t* dy, const uint16_t* x, const float* mean, const float* scale,
              const float* level, const float* slope, int64_t rows, int64_t width) {
  for_each_row(rows, width, [&](int64_t channel, int64_t at) {
    const Floats centred = load_wide<Bf16>(x + at) - load<Floats>(mean + channel);
    const Floats rest = load_wide<Bf16>(dy + at) - load<Floats>(level + channel);
    store_wide<Bf16>(dx + at, load<Floats>(scale + channel) * (rest - centred * load<Floats>(slope + channel)));
  });
}

template <class D>
constexpr ElementLoops loops_on() {
  return {.relu = relu<D>,
          .keep = keep<D>,
          .max_pool_u8 = {max_pool<D, uint8_t>, max_pool_backward<D, uint8_t>},
          .max_pool_i32 = {max_pool<D, int32_t>, max_pool_backward<D, int32_t>},
          .average_pool = average_pool<D>,
          .average_pool_backward = average_pool_backward<D>};
}

}  // namespace

const Functions kFunctions = {
    .bf16 = {widen<from_bf16>, narrow<to_bf16>, widen_lanes<from_bf16>, narrow_lanes<to_bf16>},
    .f16 = {widen<from_f16>, narrow<to_f16>, widen_lanes<from_f16>, narrow_lanes<to_f16>},
    .on_f32 = loops_on<F32>(),
    .on_bf16 = loops_on<Bf16>(),
    .on_f16 = loops_on<F16>(),
    .channels = {sum_channels, sum_squares, sum_slopes, affine, gradient},
    .multiply = multiply,
    .transpose = transpose,
    .largest = largest,
    .sum_of_exp = sum_of_exp,
    .exp_in_place = exp_in_place,
    .exp_slope = exp_slope,
    .gelu_tanh = gelu_tanh,
    .gelu_tanh_backward = gelu_tanh_backward,
};

}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

// Sums and ReLU, conversions of f16 and bf16, and images in bf16 as rows of channels.
#include "plimsoll/kernels/cpu/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plimsoll/kernels/cpu/simd/elements.cc"
#include <hwy/foreach_target.h>

#include "plimsoll/kernels/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::simd {
namespace HWY_NAMESPACE {
namespace {

template <class D>
void add(void* y, const void* x, const void* z, int64_t count) {
  map<D>(y, x, z, count, [](const Floats& a, const Floats& b) HWY_ATTR { return a + b; });
}

// ---- ReLU and its gradient, with a bit for each element ----

constexpr int64_t kBits = 8;

// A bit for each lane.
template <int64_t kCount>
HWY_INLINE unsigned bits_of(const Wide<hn::Mask<DF>, kCount>& lanes) {
  if constexpr (kCount == 1) {
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(DF(), lanes.v, bytes);
    return bytes[0] | static_cast<unsigned>(bytes[1]) << kBits;
  } else {
    return bits_of(lanes.low) | bits_of(lanes.high) << kCount / 2 * kWidth;
  }
}

template <int64_t kCount = kRegisters>
HWY_INLINE Wide<hn::Mask<DF>, kCount> lanes_of(unsigned bits) {
  if constexpr (kCount == 1) {
    const uint8_t bytes[8] = {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> kBits)};
    return {hn::LoadMaskBits(DF(), bytes)};
  } else {
    constexpr int64_t kHalf = kCount / 2 * kWidth;
    return {lanes_of<kCount / 2>(bits & ((1U << kHalf) - 1)), lanes_of<kCount / 2>(bits >> kHalf)};
  }
}

template <class D>
HWY_INLINE unsigned relu_of(typename D::Element* y, const typename D::Element* x) {
  const auto raw = load_raw<D>(x);
  const Floats v = D::upcast(raw);
  store(typename D::Tag(), y, each(ZeroWhere(), is_below(v, all(0.0F)), raw));
  return bits_of(is_above(v, all(0.0F)));
}

template <class D>
void relu(void* y_data, uint8_t* mask, const void* x_data, int64_t count) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto bits = static_cast<uint16_t>(relu_of<D>(y + i, x + i));
    if (mask != nullptr) __builtin_memcpy(mask + i / kBits, &bits, sizeof(bits));
  }
  if (i == count) return;
  typename D::Element last[kLanes] = {};
  for (int64_t lane = 0; i + lane < count; ++lane) last[lane] = x[i + lane];
  const unsigned bits = relu_of<D>(last, last);
  for (int64_t lane = 0; i + lane < count; ++lane) y[i + lane] = last[lane];
  for (int64_t byte = 0; mask != nullptr && i + byte * kBits < count; ++byte) {
    mask[i / kBits + byte] = static_cast<uint8_t>(bits >> byte * kBits);
  }
}

template <class D>
void keep(void* dx_data, const void* dy_data, const uint8_t* mask, int64_t count) {
  const auto* dy = static_cast<const typename D::Element*>(dy_data);
  auto* dx = static_cast<typename D::Element*>(dx_data);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    uint16_t bits = 0;
    __builtin_memcpy(&bits, mask + i / kBits, sizeof(bits));
    store(typename D::Tag(), dx + i, each(ZeroWhere(), lanes_of(~unsigned{bits} & 0xFFFFU), load_raw<D>(dy + i)));
  }
  for (; i < count; ++i) dx[i] = (mask[i / kBits] >> i % kBits & 1U) != 0 ? dy[i] : typename D::Element{};
}

// ---- f16 and bf16 ----

template <class D>
void upcast(float* y, const uint16_t* x, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, load_wide<D>(x + i));
  if (i < count) store_some<F32>(y + i, load_some<D>(x + i, count - i, 0), count - i);
}

template <class D>
void downcast(uint16_t* y, const float* x, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_wide<D>(y + i, load(x + i));
  if (i < count) store_some<D>(y + i, load_some<F32>(x + i, count - i, 0), count - i);
}

template <class D>
void upcast_lanes(float* y, const uint16_t* x, int64_t step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) store(y + i * kLanes, load_wide<D>(x + i * step));
}

template <class D>
void downcast_lanes(uint16_t* y, int64_t step, const float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) store_wide<D>(y + i * step, load(x + i * kLanes));
}

// ---- images in bf16 as rows of channels ----

// Calls f(channel, place) for each vector of channels of each row.
template <class F>
HWY_INLINE void for_each_row(int64_t rows, int64_t width, const F& f) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t channel = 0; channel < width; channel += kLanes) f(channel, row * width + channel);
  }
}

// sums += f(channel, place) over the rows, a few of them at a time.
template <class F>
HWY_INLINE void add_rows(float* sums, int64_t rows, int64_t width, const F& f) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (int64_t channel = 0; channel < width; channel += kLanes) {
      const int64_t at = row * width + channel;
      const Floats early = f(channel, at) + f(channel, at + width);
      const Floats late = f(channel, at + 2 * width) + f(channel, at + 3 * width);
      store(sums + channel, load(sums + channel) + (early + late));
    }
  }
  for (; row < rows; ++row) {
    for (int64_t channel = 0; channel < width; channel += kLanes) {
      store(sums + channel, load(sums + channel) + f(channel, row * width + channel));
    }
  }
}

void sum_channels(float* sums, const uint16_t* x, int64_t rows, int64_t width) {
  add_rows(sums, rows, width, [&](int64_t, int64_t at) HWY_ATTR { return load_wide<Bf16>(x + at); });
}

void sum_squares(float* sums, const uint16_t* x, const float* mean, int64_t rows, int64_t width) {
  add_rows(sums, rows, width, [&](int64_t channel, int64_t at) HWY_ATTR {
    const Floats centred = load_wide<Bf16>(x + at) - load(mean + channel);
    return centred * centred;
  });
}

void sum_slopes(float* sums, float* products, const uint16_t* dy, const uint16_t* x, const float* mean, int64_t rows,
                int64_t width) {
  sum_channels(sums, dy, rows, width);
  add_rows(products, rows, width, [&](int64_t channel, int64_t at) HWY_ATTR {
    return load_wide<Bf16>(dy + at) * (load_wide<Bf16>(x + at) - load(mean + channel));
  });
}

void affine(uint16_t* y, const uint16_t* x, const float* mean, const float* scale, const float* shift, int64_t rows,
            int64_t width) {
  for_each_row(rows, width, [&](int64_t channel, int64_t at) HWY_ATTR {
    const Floats centred = load_wide<Bf16>(x + at) - load(mean + channel);
    store_wide<Bf16>(y + at, mul_add(centred, load(scale + channel), load(shift + channel)));
  });
}

void gradient(uint16_t* dx, const uint16_t* dy, const uint16_t* x, const float* mean, const float* scale,
              const float* level, const float* slope, int64_t rows, int64_t width) {
  for_each_row(rows, width, [&](int64_t channel, int64_t at) HWY_ATTR {
    const Floats centred = load_wide<Bf16>(x + at) - load(mean + channel);
    const Floats rest = load_wide<Bf16>(dy + at) - load(level + channel);
    store_wide<Bf16>(dx + at, load(scale + channel) * neg_mul_add(centred, load(slope + channel), rest));
  });
}

template <class D>
void add_loops(ElementLoops& loops) {
  loops.relu = relu<D>;
  loops.keep = keep<D>;
  loops.add = add<D>;
}

void elements(Functions& functions) {
  functions.bf16 = {upcast<Bf16>, downcast<Bf16>, upcast_lanes<Bf16>, downcast_lanes<Bf16>};
  functions.f16 = {upcast<F16>, downcast<F16>, upcast_lanes<F16>, downcast_lanes<F16>};
  functions.channels = {sum_channels, sum_squares, sum_slopes, affine, gradient};
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
void add_elements(Isa isa, Functions& functions) { PLIMSOLL_FOR_ISA(isa, elements)(functions); }
}  // namespace plimsoll::kernels::simd
#endif

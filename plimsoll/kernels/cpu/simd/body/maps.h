// Element by element over arrays of one dtype, in f32.
#pragma once

#include "plimsoll/kernels/cpu/simd/body/vectors.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

// The first `count` of a vector; the others are `rest`, and are not stored.
template <class D>
[[gnu::always_inline]] inline Floats load_some(const typename D::Element* from, int64_t count, float rest) {
  auto vector = D::narrow(Floats{} + rest);
  for (int64_t i = 0; i < count; ++i) vector[i] = from[i];
  return D::widen(vector);
}

template <class D>
[[gnu::always_inline]] inline void store_some(typename D::Element* to, const Floats& x, int64_t count) {
  const auto vector = D::narrow(x);
  for (int64_t i = 0; i < count; ++i) to[i] = vector[i];
}

// y = f(x), called with vectors. y may lie where x does.
template <class D, class F>
[[gnu::always_inline]] inline void map(void* y_data, const void* x_data, int64_t count, const F& f) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_wide<D>(y + i, f(load_wide<D>(x + i)));
  if (i < count) store_some<D>(y + i, f(load_some<D>(x + i, count - i, 0)), count - i);
}

// y = f(x, z), likewise.
template <class D, class F>
[[gnu::always_inline]] inline void map(void* y_data, const void* x_data, const void* z_data, int64_t count,
                                       const F& f) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  const auto* z = static_cast<const typename D::Element*>(z_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_wide<D>(y + i, f(load_wide<D>(x + i), load_wide<D>(z + i)));
  if (i == count) return;
  store_some<D>(y + i, f(load_some<D>(x + i, count - i, 0), load_some<D>(z + i, count - i, 0)), count - i);
}

template <class D>
void add(void* y, const void* x, const void* z, int64_t count) {
  map<D>(y, x, z, count, [](const Floats& a, const Floats& b) { return a + b; });
}

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

// Pools over planes of channels in lanes, and their gradients.
#pragma once

#include "plimsoll/kernels/cpu/simd/body/vectors.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

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

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

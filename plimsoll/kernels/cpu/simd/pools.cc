// Pools over planes of channels in lanes, and their gradients.
#include "plimsoll/kernels/cpu/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plimsoll/kernels/cpu/simd/pools.cc"
#include <hwy/foreach_target.h>

#include "plimsoll/kernels/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::simd {
namespace HWY_NAMESPACE {
namespace {

// Groups of channels that a window is gone over for at a time: what is worked out for a place is for all of them, and
// the largest and their numbers stay in registers.
constexpr int64_t kFew = kRegisters == 1 ? 4 : kRegisters == 2 ? 2 : 1;

struct ToByte {
  HWY_INLINE hn::Vec<DB> operator()(hn::Vec<DI> x) const { return hn::TruncateTo(DB(), hn::BitCast(DU(), x)); }
};
struct FromByte {
  HWY_INLINE hn::Vec<DI> operator()(hn::Vec<DB> x) const { return hn::BitCast(DI(), hn::PromoteTo(DU(), x)); }
};

// Calls f(place in x, number of the tap) for each tap of a window.
template <class F>
HWY_INLINE void for_each_tap(const PoolPlane& p, const Reach& a, const Reach& b, const Reach& c, const F& f) {
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

// The number of the first tap of a window; 0 where it has none.
HWY_INLINE int32_t first_tap(const PoolPlane& p, const Reach& a, const Reach& b, const Reach& c) {
  const auto& [depth, height, width] = p.axes;
  if (a.first == a.end || b.first == b.end || c.first == c.end) return 0;
  const int64_t slab = (a.start + a.first * depth.step) * height.size;
  const int64_t row = (slab + b.start + b.first * height.step) * width.size;
  const int64_t number = (a.first * height.kernel + b.first) * width.kernel + c.first;
  return static_cast<int32_t>(p.numbers_plane ? row + c.start + c.first * width.step : number);
}

// Its place in y, and what it sees along the three dimensions.
struct Window {
  int64_t place;
  const Reach& a;
  const Reach& b;
  const Reach& c;
};

// Calls f(window) for each of a plane.
template <class F>
HWY_INLINE void for_each_window(const PoolPlane& p, const F& f) {
  int64_t place = 0;
  for (int64_t i = 0; i < p.axes[0].count; ++i) {
    for (int64_t j = 0; j < p.axes[1].count; ++j) {
      for (int64_t k = 0; k < p.axes[2].count; ++k) {
        f(Window{place++, p.axes[0].windows[i], p.axes[1].windows[j], p.axes[2].windows[k]});
      }
    }
  }
}

// Where a row of dx is summed up in f32: where it is to be, or in a room, from which it is then written.
HWY_INLINE float* sums_of(float* row, float* /*room*/) { return row; }
HWY_INLINE float* sums_of(uint16_t* /*row*/, float* workspace) { return workspace; }

// The windows that see a place along one dimension.
struct HitRange {
  const Hit* first;
  const Hit* end;

  bool is_empty() const { return first == end; }
};

HWY_INLINE HitRange hits_of(const PoolAxis& axis, int64_t place) {
  return {axis.hits + axis.first_hit[place], axis.hits + axis.first_hit[place + 1]};
}

// Calls f(first place of the row, hits along the first two dimensions) for each row of x.
template <class F>
HWY_INLINE void for_each_row_of_x(const PoolPlane& p, const F& f) {
  const auto& [depth, height, width] = p.axes;
  for (int64_t i = 0; i < depth.size; ++i) {
    const HitRange a = hits_of(depth, i);
    for (int64_t j = 0; j < height.size; ++j) f((i * height.size + j) * width.size, a, hits_of(height, j));
  }
}

// Windows beside each other that see a row of x.
struct RowOfWindows {
  int64_t first;  // place in y
  int64_t taps;   // the number of the first tap that they have in the row
  bool numbers_plane;

  HWY_INLINE RowOfWindows(const PoolPlane& p, const Hit& a, const Hit& b)
      : first((a.window * p.axes[1].count + b.window) * p.axes[2].count),
        taps((a.tap * p.axes[1].kernel + b.tap) * p.axes[2].kernel),
        numbers_plane(p.numbers_plane) {}

  // Of tap k in the row, which is at this place of x.
  HWY_INLINE int32_t number(int64_t place, int64_t k) const {
    return static_cast<int32_t>(numbers_plane ? place : taps + k);
  }
};

// Makes dx a row at a time, so that it is written once. Calls f(place of the row, hits along the first two dimensions,
// sums) for each row of windows that sees it; f adds to the sums what they give.
template <class D, class F>
HWY_INLINE void sum_each_row(const PoolPlane& p, typename D::Element* dx, float* workspace, const F& f) {
  const int64_t places = p.axes[2].size;
  for_each_row_of_x(p, [&](int64_t place, const HitRange& a, const HitRange& b) HWY_ATTR {
    typename D::Element* row = dx + place * p.width;
    float* sums = sums_of(row, workspace);
    for (int64_t at = 0; at < places * p.groups; ++at) store(sums + at * kLanes, all(0.0F));
    for (const Hit* i = a.first; i < a.end; ++i) {
      for (const Hit* j = b.first; j < b.end; ++j) f(place, *i, *j, sums);
    }
    if (static_cast<void*>(sums) == static_cast<void*>(row)) return;
    for (int64_t at = 0; at < places; ++at) {
      for (int64_t group = 0; group < p.groups; ++group) {
        const Floats sum = load(sums + (at * p.groups + group) * kLanes);
        store_past(typename D::Tag(), row + at * p.width + group * kLanes, D::downcast(sum), p.past_caches);
      }
    }
  });
  finish_past(p.past_caches);
}

HWY_INLINE void store_index(int32_t* to, const Ints& index) { store(DI(), to, index); }
HWY_INLINE void store_index(uint8_t* to, const Ints& index) { store(DB(), to, each(ToByte(), index)); }
HWY_INLINE Ints load_index(const int32_t* from) { return load(DI(), from); }
HWY_INLINE Ints load_index(const uint8_t* from) { return each(FromByte(), load(DB(), from)); }

// The largest tap of a window in kGroups groups of channels, and its number.
template <class D, class Index, int64_t kGroups>
HWY_INLINE void max_window(const PoolPlane& p, const Window& w, int64_t group, const typename D::Element* x,
                           typename D::Element* y, Index* indices) {
  Floats largest[kGroups];
  Ints index[kGroups];
  for (int64_t g = 0; g < kGroups; ++g) largest[g] = all(-__builtin_inff());
  for (int64_t g = 0; g < kGroups; ++g) index[g] = all(DI(), first_tap(p, w.a, w.b, w.c));
  for_each_tap(p, w.a, w.b, w.c, [&](int64_t at, int32_t number) HWY_ATTR {
    for (int64_t g = 0; g < kGroups; ++g) {
      const Floats tap = load_wide<D>(x + at * p.width + (group + g) * kLanes);
      const Lanes takes = either(is_above(tap, largest[g]), is_nan(tap));
      largest[g] = select(takes, tap, largest[g]);
      index[g] = select(each(ToIntLanes(), takes), all(DI(), number), index[g]);
    }
  });
  for (int64_t g = 0; g < kGroups; ++g) {
    store_wide<D>(y + w.place * p.width + (group + g) * kLanes, largest[g]);
    if (indices != nullptr) store_index(indices + (group + g) * p.index_group + w.place * kLanes, index[g]);
  }
}

// Planes are copied, so that the compiler knows that no store changes them.

template <class D, class Index>
void max_pool(const PoolPlane& plane, const void* x_data, void* y_data, Index* indices) {
  const PoolPlane p = plane;
  const auto* x = static_cast<const typename D::Element*>(x_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  for_each_window(p, [&](const Window& w) HWY_ATTR {
    int64_t group = 0;
    for (; group + kFew <= p.groups; group += kFew) max_window<D, Index, kFew>(p, w, group, x, y, indices);
    for (; group < p.groups; ++group) max_window<D, Index, 1>(p, w, group, x, y, indices);
  });
}

// Where no place of x is in two windows: each has the slope of its window as it is, or zero.
template <class D, class Index>
void max_pool_backward_apart(const PoolPlane& p, const typename D::Element* dy, const Index* indices,
                             typename D::Element* dx) {
  const PoolAxis& width = p.axes[2];
  for_each_row_of_x(p, [&](int64_t row, const HitRange& a, const HitRange& b) HWY_ATTR {
    for (int64_t at = 0; at < width.size; ++at) {
      typename D::Element* to = dx + (row + at) * p.width;
      const HitRange c = hits_of(width, at);
      if (a.is_empty() || b.is_empty() || c.is_empty()) {
        for (int64_t group = 0; group < p.groups; ++group)
          store_past(typename D::Tag(), to + group * kLanes, D::downcast(all(0.0F)), p.past_caches);
        continue;
      }
      const RowOfWindows windows(p, *a.first, *b.first);
      const int64_t window = windows.first + c.first->window;
      const int32_t number = windows.number(row + at, c.first->tap);
      for (int64_t group = 0; group < p.groups; ++group) {
        const Ints largest = load_index(indices + group * p.index_group + window * kLanes);
        const auto slopes = load_raw<D>(dy + window * p.width + group * kLanes);
        const Lanes others = each(ToFloatLanes(), is_other(largest, all(DI(), number)));
        store_past(typename D::Tag(), to + group * kLanes, each(ZeroWhere(), others, slopes), p.past_caches);
      }
    }
  });
  finish_past(p.past_caches);
}

// Every tap looks whether it was the largest.
template <class D, class Index>
void max_pool_backward(const PoolPlane& plane, const void* dy_data, const Index* indices, void* dx_data,
                       float* workspace) {
  const PoolPlane p = plane;
  const auto* dy = static_cast<const typename D::Element*>(dy_data);
  auto* dx = static_cast<typename D::Element*>(dx_data);
  if (p.apart) return max_pool_backward_apart<D>(p, dy, indices, dx);
  const PoolAxis& width = p.axes[2];
  sum_each_row<D>(p, dx, workspace, [&](int64_t row, const Hit& a, const Hit& b, float* sums) HWY_ATTR {
    const RowOfWindows windows(p, a, b);
    for (int64_t c = 0; c < width.count; ++c) {
      const Reach reach = width.windows[c];
      for (int64_t group = 0; group < p.groups; ++group) {
        const Floats slopes = load_wide<D>(dy + (windows.first + c) * p.width + group * kLanes);
        const Ints largest = load_index(indices + group * p.index_group + (windows.first + c) * kLanes);
        for (int64_t k = reach.first; k < reach.end; ++k) {
          const int64_t at = reach.start + k * width.step;
          float* to = sums + (at * p.groups + group) * kLanes;
          const Ints number = all(DI(), windows.number(row + at, k));
          const Lanes others = each(ToFloatLanes(), is_other(largest, number));
          store(to, load(to) + each(ZeroWhere(), others, slopes));
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
  for_each_window(p, [&](const Window& w) HWY_ATTR {
    const auto divisor = static_cast<float>(w.a.divisor * w.b.divisor * w.c.divisor);
    for (int64_t group = 0; group < p.groups; ++group) {
      Floats sum = all(0.0F);
      for_each_tap(p, w.a, w.b, w.c,
                   [&](int64_t at, int32_t) HWY_ATTR { sum = sum + load_wide<D>(x + at * p.width + group * kLanes); });
      store_wide<D>(y + w.place * p.width + group * kLanes, sum / all(divisor));
    }
  });
}

template <class D>
void average_pool_backward(const PoolPlane& plane, const void* dy_data, void* dx_data, float* workspace) {
  const PoolPlane p = plane;
  const auto* dy = static_cast<const typename D::Element*>(dy_data);
  auto* dx = static_cast<typename D::Element*>(dx_data);
  const PoolAxis& width = p.axes[2];
  sum_each_row<D>(p, dx, workspace, [&](int64_t, const Hit& a, const Hit& b, float* sums) HWY_ATTR {
    const RowOfWindows windows(p, a, b);
    const int64_t divisor = p.axes[0].windows[a.window].divisor * p.axes[1].windows[b.window].divisor;
    for (int64_t c = 0; c < width.count; ++c) {
      const Reach reach = width.windows[c];
      for (int64_t group = 0; group < p.groups; ++group) {
        const Floats slopes = load_wide<D>(dy + (windows.first + c) * p.width + group * kLanes);
        const Floats share = slopes / all(static_cast<float>(divisor * reach.divisor));
        for (int64_t k = reach.first; k < reach.end; ++k) {
          float* to = sums + ((reach.start + k * width.step) * p.groups + group) * kLanes;
          store(to, load(to) + share);
        }
      }
    }
  });
}

template <class D>
void add_loops(ElementLoops& loops) {
  loops.max_pool_u8 = {max_pool<D, uint8_t>, max_pool_backward<D, uint8_t>};
  loops.max_pool_i32 = {max_pool<D, int32_t>, max_pool_backward<D, int32_t>};
  loops.average_pool = average_pool<D>;
  loops.average_pool_backward = average_pool_backward<D>;
}

void pools(Functions& functions) {
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
void add_pools(Isa isa, Functions& functions) { PLIMSOLL_FOR_ISA(isa, pools)(functions); }
}  // namespace plimsoll::kernels::simd
#endif

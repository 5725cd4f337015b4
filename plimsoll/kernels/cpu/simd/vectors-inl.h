// Vectors of kLanes numbers, in as many registers as the target needs for them, and elements of f32, bf16 and f16 as
// such. Included once for each target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "plimsoll/kernels/cpu/simd/simd.h"

#if defined(PLIMSOLL_KERNELS_CPU_SIMD_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_SIMD_VECTORS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_SIMD_VECTORS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_SIMD_VECTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::simd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// ---- one register ----

using DF = hn::CappedTag<float, kLanes>;
using DI = hn::Rebind<int32_t, DF>;
using DU = hn::Rebind<uint32_t, DF>;
using DH = hn::Rebind<uint16_t, DF>;  // as many as of f32: a part of a register
using DB = hn::Rebind<uint8_t, DF>;
using Register = hn::Vec<DF>;

constexpr int64_t kWidth = hn::MaxLanes(DF());
constexpr int64_t kRegisters = kLanes / kWidth;                               // for kLanes numbers
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM != 0;  // 32, not 16

// ---- kLanes of them ----

template <class V, int64_t kCount>
struct Wide {
  Wide<V, kCount / 2> low, high;
};

template <class V>
struct Wide<V, 1> {
  V v;
};

using Floats = Wide<hn::Vec<DF>, kRegisters>;
using Ints = Wide<hn::Vec<DI>, kRegisters>;
using Words = Wide<hn::Vec<DU>, kRegisters>;
using LowPrecisionLanes = Wide<hn::Vec<DH>, kRegisters>;
using Lanes = Wide<hn::Mask<DF>, kRegisters>;  // that something holds for

// f of each register of the operands.
template <class F, class V, class... Rest>
HWY_INLINE auto each(const F& f, const Wide<V, 1>& a, const Rest&... rest) {
  return Wide<decltype(f(a.v, rest.v...)), 1>{f(a.v, rest.v...)};
}

template <class F, class V, int64_t kCount, class... Rest>
HWY_INLINE auto each(const F& f, const Wide<V, kCount>& a, const Rest&... rest) {
  const auto low = each(f, a.low, rest.low...);
  const auto high = each(f, a.high, rest.high...);
  return join(low, high);
}

template <class V, int64_t kCount>
HWY_INLINE Wide<V, 2 * kCount> join(const Wide<V, kCount>& low, const Wide<V, kCount>& high) {
  return {low, high};
}

template <int64_t kCount = kRegisters, class D>
HWY_INLINE Wide<hn::Vec<D>, kCount> load(D d, const hn::TFromD<D>* from) {
  if constexpr (kCount == 1) {
    return {hn::LoadU(d, from)};
  } else {
    return {load<kCount / 2>(d, from), load<kCount / 2>(d, from + kCount / 2 * kWidth)};
  }
}

template <class D, int64_t kCount>
HWY_INLINE void store(D d, hn::TFromD<D>* to, const Wide<hn::Vec<D>, kCount>& x) {
  if constexpr (kCount == 1) {
    hn::StoreU(x.v, d, to);
  } else {
    store(d, to, x.low);
    store(d, to + kCount / 2 * kWidth, x.high);
  }
}

template <int64_t kCount = kRegisters, class D>
HWY_INLINE Wide<hn::Vec<D>, kCount> all(D d, hn::TFromD<D> value) {
  if constexpr (kCount == 1) {
    return {hn::Set(d, value)};
  } else {
    return {all<kCount / 2>(d, value), all<kCount / 2>(d, value)};
  }
}

HWY_INLINE Floats all(float value) { return all(DF(), value); }
HWY_INLINE Floats load(const float* from) { return load(DF(), from); }
HWY_INLINE void store(float* to, const Floats& x) { store(DF(), to, x); }

// Where it is `past` the caches, not through them: `to` must then be aligned as a vector is, and other threads see it
// after finish_past. Registers that are not full have no such way.
template <class D, int64_t kCount>
HWY_INLINE void store_past(D d, hn::TFromD<D>* to, const Wide<hn::Vec<D>, kCount>& x, bool past) {
  if constexpr (kCount > 1) {
    store_past(d, to, x.low, past);
    store_past(d, to + kCount / 2 * kWidth, x.high, past);
  } else if constexpr (kWidth * sizeof(hn::TFromD<D>) >= 16) {
    past ? hn::Stream(x.v, d, to) : hn::StoreU(x.v, d, to);
  } else {
    hn::StoreU(x.v, d, to);
  }
}

HWY_INLINE void finish_past(bool past) {
  if (past) hwy::FlushStream();
}

#define PLIMSOLL_WIDE_2(name, op)                                            \
  struct name##_of_registers {                                               \
    template <class V>                                                       \
    HWY_INLINE auto operator()(V a, V b) const {                             \
      return op(a, b);                                                       \
    }                                                                        \
  };                                                                         \
  template <class V, int64_t kCount>                                         \
  HWY_INLINE auto name(const Wide<V, kCount>& a, const Wide<V, kCount>& b) { \
    return each(name##_of_registers(), a, b);                                \
  }

PLIMSOLL_WIDE_2(plus, hn::Add)
PLIMSOLL_WIDE_2(minus, hn::Sub)
PLIMSOLL_WIDE_2(times, hn::Mul)
PLIMSOLL_WIDE_2(divided, hn::Div)
PLIMSOLL_WIDE_2(is_above, hn::Gt)
PLIMSOLL_WIDE_2(is_below, hn::Lt)
PLIMSOLL_WIDE_2(is_equal, hn::Eq)
PLIMSOLL_WIDE_2(is_other, hn::Ne)
PLIMSOLL_WIDE_2(either, hn::Or)

HWY_INLINE Floats operator+(const Floats& a, const Floats& b) { return plus(a, b); }
HWY_INLINE Floats operator-(const Floats& a, const Floats& b) { return minus(a, b); }
HWY_INLINE Floats operator*(const Floats& a, const Floats& b) { return times(a, b); }
HWY_INLINE Floats operator/(const Floats& a, const Floats& b) { return divided(a, b); }

struct MulAdd {
  HWY_INLINE Register operator()(Register a, Register b, Register c) const { return hn::MulAdd(a, b, c); }
};
struct NegMulAdd {
  HWY_INLINE Register operator()(Register a, Register b, Register c) const { return hn::NegMulAdd(a, b, c); }
};
// a * b + c, and c - a * b
HWY_INLINE Floats mul_add(const Floats& a, const Floats& b, const Floats& c) { return each(MulAdd(), a, b, c); }
HWY_INLINE Floats neg_mul_add(const Floats& a, const Floats& b, const Floats& c) { return each(NegMulAdd(), a, b, c); }

// The larger or smaller; b where a is NaN, or b.
struct Larger {
  HWY_INLINE Register operator()(Register a, Register b) const {
#if HWY_ARCH_X86
    return hn::Max(a, b);
#else
    return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
  }
};
struct Smaller {
  HWY_INLINE Register operator()(Register a, Register b) const {
#if HWY_ARCH_X86
    return hn::Min(a, b);
#else
    return hn::IfThenElse(hn::Lt(a, b), a, b);
#endif
  }
};
HWY_INLINE Floats larger(const Floats& a, const Floats& b) { return each(Larger(), a, b); }
HWY_INLINE Floats smaller(const Floats& a, const Floats& b) { return each(Smaller(), a, b); }

// Between the two; NaN stays.
HWY_INLINE Floats clamp(const Floats& x, float low, float high) { return smaller(all(high), larger(all(low), x)); }

struct Select {
  template <class M, class V>
  HWY_INLINE V operator()(M lanes, V yes, V no) const {
    return hn::IfThenElse(lanes, yes, no);
  }
};
template <class M, class V, int64_t kCount>
HWY_INLINE Wide<V, kCount> select(const Wide<M, kCount>& lanes, const Wide<V, kCount>& yes, const Wide<V, kCount>& no) {
  return each(Select(), lanes, yes, no);
}

// Of f32 lanes for those of i32, and the other way.
struct ToIntLanes {
  HWY_INLINE hn::Mask<DI> operator()(hn::Mask<DF> lanes) const { return hn::RebindMask(DI(), lanes); }
};
struct ToFloatLanes {
  HWY_INLINE hn::Mask<DF> operator()(hn::Mask<DI> lanes) const { return hn::RebindMask(DF(), lanes); }
};

struct IsNan {
  HWY_INLINE hn::Mask<DF> operator()(Register x) const { return hn::IsNaN(x); }
};
HWY_INLINE Lanes is_nan(const Floats& x) { return each(IsNan(), x); }

// 1 / x to 2^-14 of itself.
struct QuickReciprocal {
  HWY_INLINE Register operator()(Register x) const {
#if HWY_TARGET == HWY_AVX3
    return hn::ApproximateReciprocal(x);
#else
    return hn::Div(hn::Set(DF(), 1.0F), x);
#endif
  }
};
HWY_INLINE Floats quick_reciprocal(const Floats& x) { return each(QuickReciprocal(), x); }

// One after the other, so that sums are the same for all targets.
HWY_INLINE float sum(const Floats& x) {
  float lanes[kLanes];
  store(lanes, x);
  float total = 0;
  for (const float lane : lanes) total += lane;
  return total;
}

// ---- halves ----

struct FromBf16 {
  HWY_INLINE Register operator()(hn::Vec<DH> x) const {
    return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), x)));
  }
};

HWY_INLINE hn::Vec<DH> upper_halves(hn::Vec<DU> x) {
  const hn::Repartition<uint16_t, DU> d;
  const auto values = hn::BitCast(d, x);
  return hn::LowerHalf(DH(), hn::ConcatOdd(d, values, values));
}

struct ToBf16 {
  HWY_INLINE hn::Vec<DH> operator()(Register x) const {
    const DU d;
    const auto b = hn::BitCast(d, x);
    const auto odd = hn::And(hn::ShiftRight<16>(b), hn::Set(d, 1U));
    const auto rounded = hn::Add(hn::Add(b, hn::Set(d, 0x7FFFU)), odd);
    const auto quiet = hn::Or(b, hn::Set(d, 0x400000U));
    const auto picked = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), quiet, rounded);
    return upper_halves(picked);
  }
};

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

using DHalf = hn::Rebind<hwy::float16_t, DF>;

struct FromF16 {
  HWY_INLINE Register operator()(hn::Vec<DH> x) const { return hn::PromoteTo(DF(), hn::BitCast(DHalf(), x)); }
};
struct ToF16 {
  HWY_INLINE hn::Vec<DH> operator()(Register x) const { return hn::BitCast(DH(), hn::DemoteTo(DHalf(), x)); }
};

#else

struct FromF16 {
  HWY_INLINE Register operator()(hn::Vec<DH> x) const {
    const DU d;
    const auto b = hn::PromoteTo(d, x);
    const auto magnitude = hn::And(b, hn::Set(d, 0x7FFFU));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    // Of small ones, too: they are denormal here.
    const auto sized = hn::BitCast(d, hn::Mul(hn::BitCast(DF(), shifted), hn::Set(DF(), 0x1p112F)));
    const auto is_large = hn::Gt(hn::BitCast(DI(), magnitude), hn::Set(DI(), 0x7BFF));
    const auto size = hn::IfThenElse(hn::RebindMask(d, is_large), hn::Or(shifted, hn::Set(d, 0x7F800000U)), sized);
    const auto sign = hn::ShiftLeft<16>(hn::And(b, hn::Set(d, 0x8000U)));
    return hn::BitCast(DF(), hn::Or(size, sign));
  }
};

struct ToF16 {
  HWY_INLINE hn::Vec<DH> operator()(Register x) const {
    const DU d;
    const DI i;
    const auto b = hn::BitCast(d, x);
    const auto size = hn::And(b, hn::Set(d, 0x7FFFFFFFU));
    const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(d, 1U));
    const auto moved = hn::Add(hn::Sub(size, hn::Set(d, 0x38000000U)), hn::Add(hn::Set(d, 0xFFFU), odd));
    const auto normal = hn::ShiftRight<13>(moved);
    // What is below 2^-24 is rounded away.
    const auto raised = hn::Add(hn::BitCast(DF(), size), hn::Set(DF(), 0.5F));
    const auto small = hn::Sub(hn::BitCast(d, raised), hn::Set(d, 0x3F000000U));
    const auto above = [&](uint32_t limit) HWY_ATTR {
      return hn::RebindMask(d, hn::Gt(hn::BitCast(i, size), hn::Set(i, static_cast<int32_t>(limit))));
    };
    const auto finite = hn::IfThenElse(above(0x387FFFFFU), normal, small);
    const auto held = hn::IfThenElse(above(0x477FEFFFU), hn::Set(d, 0x7C00U), finite);
    const auto whole = hn::IfThenElse(above(0x7F800000U), hn::Set(d, 0x7E00U), held);
    const auto sign = hn::And(hn::ShiftRight<16>(b), hn::Set(d, 0x8000U));
    return hn::TruncateTo(DH(), hn::Or(whole, sign));
  }
};

#endif

// ---- elements of one dtype ----

// All bits of a half where the lane is.
struct HalfLanes {
  HWY_INLINE hn::Vec<DH> operator()(hn::Mask<DF> lanes) const {
    return hn::TruncateTo(DH(), hn::BitCast(DU(), hn::VecFromMask(DF(), lanes)));
  }
};
struct ZeroWhere {
  HWY_INLINE Register operator()(hn::Mask<DF> lanes, Register x) const { return hn::IfThenZeroElse(lanes, x); }
  HWY_INLINE hn::Vec<DH> operator()(hn::Mask<DF> lanes, hn::Vec<DH> x) const {
    return hn::AndNot(HalfLanes()(lanes), x);
  }
};

struct F32 {
  static constexpr bool kIsLowPrecision = false;
  using Element = float;
  using Tag = DF;
  static HWY_INLINE Floats upcast(const Floats& x) { return x; }
  static HWY_INLINE Floats downcast(const Floats& x) { return x; }
};

template <class From, class To>
struct LowPrecision {
  static constexpr bool kIsLowPrecision = true;
  using Element = uint16_t;
  using Tag = DH;
  static HWY_INLINE Floats upcast(const LowPrecisionLanes& x) { return each(From(), x); }
  static HWY_INLINE LowPrecisionLanes downcast(const Floats& x) { return each(To(), x); }
};

using Bf16 = LowPrecision<FromBf16, ToBf16>;
using F16 = LowPrecision<FromF16, ToF16>;

template <class D>
HWY_INLINE auto load_raw(const typename D::Element* from) {
  return load(typename D::Tag(), from);
}

template <class D>
HWY_INLINE Floats load_wide(const typename D::Element* from) {
  return D::upcast(load_raw<D>(from));
}

template <class D>
HWY_INLINE void store_wide(typename D::Element* to, const Floats& x) {
  store(typename D::Tag(), to, D::downcast(x));
}

// The first `count` of a vector; the others are `rest`, and are not stored.
template <class D>
HWY_INLINE Floats load_some(const typename D::Element* from, int64_t count, float rest) {
  typename D::Element lanes[kLanes];
  store_wide<D>(lanes, all(rest));
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load_wide<D>(lanes);
}

template <class D>
HWY_INLINE void store_some(typename D::Element* to, const Floats& x, int64_t count) {
  typename D::Element lanes[kLanes];
  store_wide<D>(lanes, x);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// y = f(x), called with vectors. y may lie where x does.
template <class D, class F>
HWY_INLINE void map(void* y_data, const void* x_data, int64_t count, const F& f) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_wide<D>(y + i, f(load_wide<D>(x + i)));
  if (i < count) store_some<D>(y + i, f(load_some<D>(x + i, count - i, 0)), count - i);
}

// y = f(x, z), likewise.
template <class D, class F>
HWY_INLINE void map(void* y_data, const void* x_data, const void* z_data, int64_t count, const F& f) {
  const auto* x = static_cast<const typename D::Element*>(x_data);
  const auto* z = static_cast<const typename D::Element*>(z_data);
  auto* y = static_cast<typename D::Element*>(y_data);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_wide<D>(y + i, f(load_wide<D>(x + i), load_wide<D>(z + i)));
  if (i == count) return;
  store_some<D>(y + i, f(load_some<D>(x + i, count - i, 0), load_some<D>(z + i, count - i, 0)), count - i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll::kernels::simd
HWY_AFTER_NAMESPACE();

#endif

// y[i] = EXPR of x0[i], x1[i], x2[i], as many as OPERANDS; a thread has eight elements in a row.
//   T0 .. T2, OUT   element types       KIND0 .. KIND2   0 as y lies, 1 one element for all, 2 by its Walk
//   MASK_OUT        the bit of an element is TAKEN, an expression      MASK_IN   `bit` may stand in EXPR
//   EXPR            of x0 .. x2 and the numbers p0 .. p3
#ifndef OPERANDS
#define OPERANDS 1
#endif
#ifndef T1
#define T1 f32
#define KIND1 1
#endif
#ifndef T2
#define T2 f32
#define KIND2 1
#endif

template <class T, int KIND>
DEVICE void take(const T* x, const Walk& walk, i64 first, int count, typename Wide<T>::type* into) {
  if (KIND == 0 && count == 8 && is_aligned(x)) return load8(x + first, into);
  if (KIND == 1) {
    const typename Wide<T>::type one = wide(x[0]);
#pragma unroll
    for (int k = 0; k < 8; ++k) into[k] = one;
    return;
  }
  const int inner = KIND == 2 && walk.rank > 0 ? walk.rank - 1 : 0;
  const i64 at = KIND == 2 ? first % walk.size[inner] : 0;
  const bool in_one_row = KIND == 2 && at + count <= walk.size[inner];
  const i64 start = in_one_row ? place(walk, first) : 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (k >= count) continue;
    if (KIND == 0) into[k] = wide(x[first + k]);
    if (KIND == 2) into[k] = wide(x[in_one_row ? start + k * walk.stride[inner] : place(walk, first + k)]);
  }
}

KERNEL run(i64 n, OUT* y, u8* mask, const T0* a, const T1* b, const T2* c, Walk wa, Walk wb, Walk wc, float p0, float p1,
           float p2, float p3) {
  const i64 first = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (first >= n) return;
  const int count = n - first < 8 ? (int)(n - first) : 8;
  Wide<T0>::type v0[8] = {};
  take<T0, KIND0>(a, wa, first, count, v0);
#if OPERANDS > 1
  Wide<T1>::type v1[8] = {};
  take<T1, KIND1>(b, wb, first, count, v1);
#endif
#if OPERANDS > 2
  Wide<T2>::type v2[8] = {};
  take<T2, KIND2>(c, wc, first, count, v2);
#endif
#ifdef MASK_IN
  const u32 bits = mask[first / 8];
#endif
#ifdef MASK_OUT
  u32 taken = 0;
#endif
  Wide<OUT>::type results[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const Wide<T0>::type x0 = v0[k];
#if OPERANDS > 1
    const Wide<T1>::type x1 = v1[k];
#endif
#if OPERANDS > 2
    const Wide<T2>::type x2 = v2[k];
#endif
#ifdef MASK_IN
    const bool bit = (bits >> k & 1) != 0;
#endif
#ifdef MASK_OUT
    if (k < count && (TAKEN)) taken |= 1u << k;
#endif
    results[k] = (Wide<OUT>::type)(EXPR);
  }
#ifdef MASK_OUT
  if (mask != 0) mask[first / 8] = (u8)taken;
#endif
  if (y == 0) return;
  if (count == 8 && is_aligned(y)) return store8(y + first, results);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (k < count) y[first + k] = narrow<OUT>(results[k]);
  }
}

// Lines of n elements, `stride` apart, a thread for each (softmax.cuh says where a line begins).
typedef Wide<T>::type V;

#ifdef CUMSUM
KERNEL run(i64 lines, i64 n, i64 stride, T* y, const T* x, i32 exclusive, i32 reverse) {
  const i64 line = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  const i64 start = line / stride * n * stride + line % stride;
  V sum = 0;
  for (i64 k = 0; k < n; ++k) {
    const i64 at = start + (reverse ? n - 1 - k : k) * stride;
    const V before = sum;
    sum += wide(x[at]);
    y[at] = narrow<T>(exclusive ? before : sum);
  }
}
#endif

#ifdef TOP_K
DEVICE bool before(V a, i64 at_a, V b, i64 at_b, i32 largest) {
  const bool first = largest ? (a > b || (a != a && b == b)) : (b > a || (b != b && a == a));
  const bool second = largest ? (b > a || (b != b && a == a)) : (a > b || (a != a && b == b));
  return first || (!second && at_a < at_b);
}

KERNEL run(i64 lines, i64 n, i64 stride, i64 k, T* y, i64* index, const T* x, i32 largest) {
  const i64 line = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  const i64 start = line / stride * n * stride + line % stride;
  const i64 to = line / stride * k * stride + line % stride;
  V last = 0;
  i64 last_at = -1;
  for (i64 rank = 0; rank < k; ++rank) {
    V best = 0;
    i64 best_at = -1;
    for (i64 j = 0; j < n; ++j) {
      const V v = wide(x[start + j * stride]);
      if (last_at >= 0 && !before(last, last_at, v, j, largest)) continue;
      if (best_at < 0 || before(v, j, best, best_at, largest)) {
        best = v;
        best_at = j;
      }
    }
    if (y != 0) y[to + rank * stride] = narrow<T>(best);
    if (index != 0) index[to + rank * stride] = best_at;
    last = best;
    last_at = best_at;
  }
}
#endif

// Padding, a dimension at a time for what is summed.
struct Edges {
  i32 rank;
  i32 mode;  // 0 constant, 1 reflect, 2 edge
  i64 size[8], padded[8], before[8], stride[8];
};

#ifdef FORWARD
KERNEL run(i64 n, T* y, const T* x, Edges e, double value) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  i64 rest = i, from = 0;
  bool outside = false;
  for (int d = e.rank - 1; d >= 0; --d) {
    i64 at = rest % e.padded[d] - e.before[d];
    rest /= e.padded[d];
    if (e.mode == 0) {
      outside = outside || at < 0 || at >= e.size[d];
    } else {
      if (e.mode == 1 && at < 0) at = -at;
      if (e.mode == 1 && at >= e.size[d]) at = 2 * (e.size[d] - 1) - at;
      at = at < 0 ? 0 : at >= e.size[d] ? e.size[d] - 1 : at;
    }
    from += at * e.stride[d];
  }
  y[i] = outside ? narrow<T>(VALUE) : x[from];
}
#endif

#ifdef BACKWARD
// dy [outer, padded, inner] to dx [outer, size, inner].
KERNEL run(i64 n, i64 size, i64 padded, i64 before, i64 inner, OUT* dx, const T* dy, i32 reflect) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const i64 at = i / inner % size;
  const T* from = dy + i / inner / size * padded * inner + i % inner;
  Wide<T>::type sum = wide(from[(before + at) * inner]);
  if (reflect) {
    const i64 low = before - at, high = before + 2 * (size - 1) - at;
    if (at > 0 && low >= 0) sum += wide(from[low * inner]);
    if (at < size - 1 && high < padded) sum += wide(from[high * inner]);
  } else {
    if (at == 0) {
      for (i64 k = 0; k < before; ++k) sum += wide(from[k * inner]);
    }
    if (at == size - 1) {
      for (i64 k = before + size; k < padded; ++k) sum += wide(from[k * inner]);
    }
  }
  dx[i] = narrow<OUT>(sum);
}
#endif

// x repeated along its dimensions: e.padded are the sizes of y.
#ifdef TILE
KERNEL run(i64 n, UNIT* y, const UNIT* x, Edges e) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  i64 rest = i, from = 0;
  for (int d = e.rank - 1; d >= 0; --d) {
    from += rest % e.padded[d] % e.size[d] * e.stride[d];
    rest /= e.padded[d];
  }
  y[i] = x[from];
}
#endif

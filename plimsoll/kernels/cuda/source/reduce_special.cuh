// Reductions that need more than a sum, a block of 128 for each result o; x lies at place(kept, o) + place(gone, r).
typedef Wide<T>::type W;

// The first element that no other is better than; NaN is better than all.
#ifdef EXTREME
KERNEL run(i64 gone_count, T* y, INDEX* index, const T* x, Walk kept, Walk gone) {
  __shared__ W values[128];
  __shared__ i64 places[128];
  const i64 o = blockIdx.x;
  const T* from = x + place(kept, o);
  W best = 0;
  i64 at = -1;
  for (i64 r = threadIdx.x; r < gone_count; r += 128) {
    const W v = wide(from[place(gone, r)]);
    if (at < 0 || v EXTREME best || (v != v && best == best)) {
      best = v;
      at = r;
    }
  }
  values[threadIdx.x] = best;
  places[threadIdx.x] = at;
  __syncthreads();
  for (int half = 64; half > 0; half >>= 1) {
    if (threadIdx.x < half) {
      const W other = values[threadIdx.x + half];
      const i64 there = places[threadIdx.x + half];
      const W mine = values[threadIdx.x];
      const i64 here = places[threadIdx.x];
      const bool equal = other == mine || (other != other && mine != mine);
      const bool better = other EXTREME mine || (other != other && mine == mine);
      if (there >= 0 && (here < 0 || better || (equal && there < here))) {
        values[threadIdx.x] = other;
        places[threadIdx.x] = there;
      }
    }
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
  if (y != 0) y[o] = narrow<T>(values[0]);
  if (index != 0) index[o] = (INDEX)places[0];
}
#endif

#ifdef VARIANCE
KERNEL run(i64 gone_count, OUT* y, const T* x, Walk kept, Walk gone, float freedom, const OUT* dy, i32 backward) {
  __shared__ float shared[32];
  const i64 o = blockIdx.x;
  const i64 start = place(kept, o);
  float sum = 0;
  for (i64 r = threadIdx.x; r < gone_count; r += blockDim.x) sum += wide(x[start + place(gone, r)]);
  const float mean = over_block<Add>(sum, shared, 0.0f) / (float)gone_count;
  if (backward) {
    const float scale = 2 * wide(dy[o]) / freedom;
    for (i64 r = threadIdx.x; r < gone_count; r += blockDim.x) {
      const i64 at = start + place(gone, r);
      y[at] = narrow<OUT>(scale * (wide(x[at]) - mean));
    }
    return;
  }
  float squares = 0;
  for (i64 r = threadIdx.x; r < gone_count; r += blockDim.x) {
    const float d = wide(x[start + place(gone, r)]) - mean;
    squares += d * d;
  }
  squares = over_block<Add>(squares, shared, 0.0f);
  if (threadIdx.x == 0) y[o] = narrow<OUT>(squares / freedom);
}
#endif

// The product of all others, by multiplying them.
#ifdef PRODUCT_BACKWARD
KERNEL run(i64 gone_count, T* dx, const T* dy, const T* x, Walk kept, Walk gone) {
  const i64 o = blockIdx.x;
  const i64 start = place(kept, o);
  const W slope = wide(dy[o]);
  for (i64 r = threadIdx.x; r < gone_count; r += blockDim.x) {
    W product = 1;
    for (i64 other = 0; other < gone_count; ++other) {
      if (other != r) product *= wide(x[start + place(gone, other)]);
    }
    dx[start + place(gone, r)] = narrow<T>(slope * product);
  }
}
#endif

#ifdef NORM_BACKWARD
KERNEL run(i64 gone_count, T* dx, const T* dy, const T* x, const T* y, Walk kept, Walk gone) {
  const i64 o = blockIdx.x;
  const i64 start = place(kept, o);
  const W slope = wide(dy[o]);
  const W norm = wide(y[o]);
  for (i64 r = threadIdx.x; r < gone_count; r += blockDim.x) {
    const i64 at = start + place(gone, r);
    dx[at] = narrow<T>(norm == 0 ? 0 : slope * wide(x[at]) / norm);
  }
}
#endif

#ifdef EXTREME_BACKWARD
KERNEL run(i64 gone_count, T* dx, const T* dy, const i32* index, Walk kept, Walk gone) {
  const i64 o = blockIdx.x;
  const i64 start = place(kept, o);
  for (i64 r = threadIdx.x; r < gone_count; r += blockDim.x) {
    dx[start + place(gone, r)] = narrow<T>(r == index[o] ? wide(dy[o]) : (W)0);
  }
}
#endif

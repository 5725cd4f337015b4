// Normalisation of channels. Without LAST, x is [samples, channels, plane]; with LAST, [rows, channels]. The elements of a
// channel are cut into gridDim.y parts, whose results are joined in their order.
DEVICE i64 begin_of(i64 count, i64 part, i64 parts) { return count / parts * part + (part < count % parts ? part : count % parts); }

// Count, mean and sum of squared distances from it.
struct Moments {
  float count;
  float mean;
  float squares;
};

DEVICE void add_to(Moments& all, float v) {
  all.count += 1;
  const float distance = v - all.mean;
  all.mean += distance / all.count;
  all.squares += distance * (v - all.mean);
}

DEVICE Moments joined(const Moments& a, const Moments& b) {
  Moments all;
  all.count = a.count + b.count;
  if (all.count == 0) {
    all.mean = 0;
    all.squares = 0;
    return all;
  }
  const float distance = b.mean - a.mean;
  const float share = b.count / all.count;
  all.mean = a.mean + distance * share;
  all.squares = a.squares + b.squares + distance * distance * a.count * share;
  return all;
}

DEVICE Moments shuffled(const Moments& m, int lane_mask) {
  Moments other;
  other.count = shuffled(m.count, lane_mask);
  other.mean = shuffled(m.mean, lane_mask);
  other.squares = shuffled(m.squares, lane_mask);
  return other;
}

// From sums and sums of squares of the distances from a value near the mean.
DEVICE Moments moments_of(float count, float near, float sum, float squares) {
  Moments m;
  m.count = count;
  const float distance = count > 0 ? sum / count : 0;
  m.mean = near + distance;
  m.squares = fmaxf(squares - sum * distance, 0.0f);
  return m;
}

#ifdef LAST
#define ROWS_OF_BLOCK (256 / LANES)
// Blocks of 256: LANES lanes of VEC channels, the other threads for rows. Values are summed as distances from the first row's.
KERNEL moments(i64 rows, i64 channels, i64 unused, Moments* partial, const T* x) {
  __shared__ Moments shared[ROWS_OF_BLOCK][LANES][VEC];
  const i64 c = VEC * ((i64)blockIdx.x * LANES + threadIdx.x);
  const i64 first = begin_of(rows, blockIdx.y, gridDim.y), last = begin_of(rows, blockIdx.y + 1, gridDim.y);
  float near[VEC] = {}, sum[VEC] = {}, squares[VEC] = {}, count = 0;
  if (c < channels) {
#if VEC == 8
    load8(x + c, near);
#else
    near[0] = wide(x[c]);
#endif
#pragma unroll 4
    for (i64 row = first + threadIdx.y; row < last; row += ROWS_OF_BLOCK) {
      float v[VEC];
#if VEC == 8
      load8(x + row * channels + c, v);
#else
      v[0] = wide(x[row * channels + c]);
#endif
#pragma unroll
      for (int k = 0; k < VEC; ++k) {
        const float d = v[k] - near[k];
        sum[k] += d;
        squares[k] += d * d;
      }
      count += 1;
    }
  }
#pragma unroll
  for (int k = 0; k < VEC; ++k) shared[threadIdx.y][threadIdx.x][k] = moments_of(count, near[k], sum[k], squares[k]);
  __syncthreads();
  if (threadIdx.y > 0 || c >= channels) return;
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    Moments all = shared[0][threadIdx.x][k];
    for (int row = 1; row < ROWS_OF_BLOCK; ++row) all = joined(all, shared[row][threadIdx.x][k]);
    partial[(i64)blockIdx.y * channels + c + k] = all;
  }
}

// Sums of dy and of dy * normal; partial [parts][2][channels].
KERNEL slopes(i64 rows, i64 channels, i64 unused, float* partial, const T* dy, const T* x, const float* means, const float* rstds) {
  __shared__ float shared[ROWS_OF_BLOCK][2][LANES][VEC];
  const i64 c = VEC * ((i64)blockIdx.x * LANES + threadIdx.x);
  const i64 first = begin_of(rows, blockIdx.y, gridDim.y), last = begin_of(rows, blockIdx.y + 1, gridDim.y);
  float level[VEC] = {}, slope[VEC] = {};
  if (c < channels) {
    float mean[VEC];
#pragma unroll
    for (int k = 0; k < VEC; ++k) mean[k] = means[c + k];
#pragma unroll 4
    for (i64 row = first + threadIdx.y; row < last; row += ROWS_OF_BLOCK) {
      float d[VEC], v[VEC];
#if VEC == 8
      load8(dy + row * channels + c, d);
      load8(x + row * channels + c, v);
#else
      d[0] = wide(dy[row * channels + c]);
      v[0] = wide(x[row * channels + c]);
#endif
#pragma unroll
      for (int k = 0; k < VEC; ++k) {
        level[k] += d[k];
        slope[k] += d[k] * (v[k] - mean[k]);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    shared[threadIdx.y][0][threadIdx.x][k] = level[k];
    shared[threadIdx.y][1][threadIdx.x][k] = slope[k];
  }
  __syncthreads();
  if (threadIdx.y > 0 || c >= channels) return;
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    float level_sum = 0, slope_sum = 0;
    for (int row = 0; row < ROWS_OF_BLOCK; ++row) {
      level_sum += shared[row][0][threadIdx.x][k];
      slope_sum += shared[row][1][threadIdx.x][k];
    }
    partial[(i64)blockIdx.y * 2 * channels + c + k] = level_sum;
    partial[(i64)blockIdx.y * 2 * channels + channels + c + k] = slope_sum * rstds[c + k];
  }
}
#else
// A block of 256 for each channel and part.
KERNEL moments(i64 samples, i64 channels, i64 plane, Moments* partial, const T* x) {
  __shared__ Moments shared[8];
  const i64 c = blockIdx.x;
  const i64 count = samples * plane;
  const i64 first = begin_of(count, blockIdx.y, gridDim.y), last = begin_of(count, blockIdx.y + 1, gridDim.y);
  const float near = wide(x[c * plane]);
  float seen = 0, sum = 0, squares = 0;
  for (i64 i = first + threadIdx.x; i < last; i += 256) {
    const i64 sample = i / plane;
    const float d = wide(x[(sample * channels + c) * plane + (i - sample * plane)]) - near;
    sum += d;
    squares += d * d;
    seen += 1;
  }
  Moments all = moments_of(seen, near, sum, squares);
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    const Moments other = shuffled(all, step);
    all = (threadIdx.x & step) == 0 ? joined(all, other) : joined(other, all);
  }
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = all;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int warp = 1; warp < 8; ++warp) all = joined(all, shared[warp]);
  partial[(i64)blockIdx.y * channels + c] = all;
}

KERNEL slopes(i64 samples, i64 channels, i64 plane, float* partial, const T* dy, const T* x, const float* means, const float* rstds) {
  __shared__ float shared[32];
  const i64 c = blockIdx.x;
  const i64 count = samples * plane;
  const i64 first = begin_of(count, blockIdx.y, gridDim.y), last = begin_of(count, blockIdx.y + 1, gridDim.y);
  const float mean = means[c];
  float level = 0, slope = 0;
  for (i64 i = first + threadIdx.x; i < last; i += 256) {
    const i64 sample = i / plane;
    const i64 at = (sample * channels + c) * plane + (i - sample * plane);
    const float d = wide(dy[at]);
    level += d;
    slope += d * (wide(x[at]) - mean);
  }
  level = over_block<Add>(level, shared, 0.0f);
  slope = over_block<Add>(slope, shared, 0.0f);
  if (threadIdx.x > 0) return;
  partial[(i64)blockIdx.y * 2 * channels + c] = level;
  partial[(i64)blockIdx.y * 2 * channels + channels + c] = slope * rstds[c];
}
#endif

// A warp for each channel. Statistics of all parts: what the caller asked for, and scale and shift [2][channels] for `apply`.
KERNEL finish_moments(i64 parts, i64 channels, const Moments* partial, float eps, float* mean, float* rstd, float* variance,
                      const P* weight, const P* bias, float* scale_shift) {
  const i64 c = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x & 31;
  if (c >= channels) return;
  Moments all = {0, 0, 0};
  for (i64 part = lane; part < parts; part += 32) all = joined(all, partial[part * channels + c]);
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    const Moments other = shuffled(all, step);
    all = (lane & step) == 0 ? joined(all, other) : joined(other, all);
  }
  if (lane > 0) return;
  const float v = all.squares / all.count;
  const float r = rsqrtf(v + eps);
  if (mean != 0) mean[c] = all.mean;
  if (rstd != 0) rstd[c] = r;
  if (variance != 0) variance[c] = v;
  const float scale = weight != 0 ? r * wide(weight[c]) : r;
  scale_shift[c] = scale;
  scale_shift[channels + c] = (bias != 0 ? wide(bias[c]) : 0.0f) - all.mean * scale;
}

// The same for given statistics; S their type.
#ifdef S
KERNEL given(i64 channels, const S* mean, const S* variance, float eps, const P* weight, const P* bias, float* scale_shift) {
  const i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  const float r = rsqrtf(wide(variance[c]) + eps);
  const float scale = weight != 0 ? r * wide(weight[c]) : r;
  scale_shift[c] = scale;
  scale_shift[channels + c] = (bias != 0 ? wide(bias[c]) : 0.0f) - (mean != 0 ? wide(mean[c]) * scale : 0.0f);
}

KERNEL given_inverse(i64 channels, const S* mean, const S* variance, float eps, float* means, float* rstds) {
  const i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  means[c] = wide(mean[c]);
  rstds[c] = rsqrtf(wide(variance[c]) + eps);
}
#endif

// A warp for each channel: dweight and dbias, and for `apply_backward` [3][channels] so that dx = a * dy + b * x + c.
KERNEL finish_slopes(i64 parts, i64 channels, float count, const float* partial, const float* means, const float* rstds,
                     const P* weight, P* dweight, P* dbias, float* factors) {
  const i64 c = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x & 31;
  if (c >= channels) return;
  float level = 0, slope = 0;
  for (i64 part = lane; part < parts; part += 32) {
    level += partial[part * 2 * channels + c];
    slope += partial[part * 2 * channels + channels + c];
  }
  level = over_warp<Add>(level);
  slope = over_warp<Add>(slope);
  if (lane > 0) return;
  if (dweight != 0) dweight[c] = narrow<P>(slope);
  if (dbias != 0) dbias[c] = narrow<P>(level);
  if (factors == 0) return;
  const float a = rstds[c] * (weight != 0 ? wide(weight[c]) : 1.0f);
  const float b = -a * rstds[c] * slope / count;
  factors[c] = a;
  factors[channels + c] = b;
  factors[2 * channels + c] = -a * level / count - b * means[c];
}

DEVICE i64 channel_of(i64 at, i64 channels, i64 plane) {
#ifdef LAST
  return at < 0xffffffffLL ? (i64)((u32)at % (u32)channels) : at % channels;
#else
  return at < 0xffffffffLL ? (i64)((u32)at / (u32)plane % (u32)channels) : at / plane % channels;
#endif
}

// Eight elements for a thread; `n` elements, whole groups of eight of one row (LAST) or one plane where VEC is 8.
KERNEL apply(i64 n, i64 channels, i64 plane, T* y, const T* x, const float* scale_shift) {
  const i64 at = VEC * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= n) return;
  i64 c = channel_of(at, channels, plane);
#if VEC == 8
  float v[8];
  load8(x + at, v);
#ifdef LAST
  float scale[8], shift[8];
  load8(scale_shift + c, scale);
  load8(scale_shift + channels + c, shift);
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = v[k] * scale[k] + shift[k];
#else
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = v[k] * scale_shift[c] + scale_shift[channels + c];
#endif
  store8(y + at, v);
#else
  y[at] = narrow<T>(wide(x[at]) * scale_shift[c] + scale_shift[channels + c]);
#endif
}

KERNEL apply_backward(i64 n, i64 channels, i64 plane, T* dx, const T* dy, const T* x, const float* factors) {
  const i64 at = VEC * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= n) return;
  const i64 c = channel_of(at, channels, plane);
#if VEC == 8
  float d[8], v[8];
  load8(dy + at, d);
  load8(x + at, v);
#ifdef LAST
  float fa[8], fb[8], fc[8];
  load8(factors + c, fa);
  load8(factors + channels + c, fb);
  load8(factors + 2 * channels + c, fc);
#pragma unroll
  for (int k = 0; k < 8; ++k) d[k] = fa[k] * d[k] + fb[k] * v[k] + fc[k];
#else
  const float fa = factors[c], fb = factors[channels + c], fc = factors[2 * channels + c];
#pragma unroll
  for (int k = 0; k < 8; ++k) d[k] = fa * d[k] + fb * v[k] + fc;
#endif
  store8(dx + at, d);
#else
  dx[at] = narrow<T>(factors[c] * wide(dy[at]) + factors[channels + c] * wide(x[at]) + factors[2 * channels + c]);
#endif
}

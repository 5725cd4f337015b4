// Normalisation of channels of x [samples, channels, plane], and what becomes of the parts of either layout. The elements of
// a channel are cut into gridDim.y parts.
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

// A warp for each channel. Statistics of all parts, and scale and shift [2][channels] for `apply`: what the caller asked for.
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
  if (scale_shift == 0) return;
  const float scale = weight != 0 ? r * wide(weight[c]) : r;
  scale_shift[c] = scale;
  scale_shift[channels + c] = (bias != 0 ? wide(bias[c]) : 0.0f) - all.mean * scale;
}

// Scale and shift by mean and rstd.
KERNEL scale_and_shift(i64 channels, const float* mean, const float* rstd, const P* weight, const P* bias, float* scale_shift) {
  const i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  const float scale = rstd[c] * wide(weight[c]);
  scale_shift[c] = scale;
  scale_shift[channels + c] = wide(bias[c]) - mean[c] * scale;
}

// By mean and variance; S their type.
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
  return at < 0xffffffffLL ? (i64)((u32)at / (u32)plane % (u32)channels) : at / plane % channels;
}

// `n` elements, VEC of one plane for a thread.
KERNEL apply(i64 n, i64 channels, i64 plane, T* y, const T* x, const float* scale_shift) {
  const i64 at = VEC * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= n) return;
  const i64 c = channel_of(at, channels, plane);
#if VEC == 8
  float v[8];
  load8(x + at, v);
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = v[k] * scale_shift[c] + scale_shift[channels + c];
  store8(y + at, v);
#else
  y[at] = narrow<T>(wide(x[at]) * scale_shift[c] + scale_shift[channels + c]);
#endif
}

KERNEL apply_backward(i64 n, i64 channels, i64 plane, T* dx, const T* dy, const T* x, const float* factors) {
  const i64 at = VEC * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= n) return;
  const i64 c = channel_of(at, channels, plane);
  const float fa = factors[c], fb = factors[channels + c], fc = factors[2 * channels + c];
#if VEC == 8
  float d[8], v[8];
  load8(dy + at, d);
  load8(x + at, v);
#pragma unroll
  for (int k = 0; k < 8; ++k) d[k] = fa * d[k] + fb * v[k] + fc;
  store8(dx + at, d);
#else
  dx[at] = narrow<T>(fa * wide(dy[at]) + fb * wide(x[at]) + fc);
#endif
}

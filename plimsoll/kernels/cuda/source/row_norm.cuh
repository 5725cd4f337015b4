// Normalisation of rows of n elements: layer_norm, rms_norm (no CENTRED) and group_norm. A block for each row.
//   T, P (of weight and bias), PARAMETER(j): which parameter element j of the row has
KERNEL forward(i64 n, i64 groups, i64 of_group, i64 plane, T* y, float* mean_out, float* rstd_out, const T* x, const P* weight,
               const P* bias, float eps) {
  __shared__ float shared[32];
  const i64 row = blockIdx.x;
  const T* from = x + row * n;
  T* to = y + row * n;
  const bool vectors = n % 8 == 0 && is_aligned(x) && is_aligned(y) && PLAIN && (weight == 0 || is_aligned(weight)) &&
                       (bias == 0 || is_aligned(bias));
  if (vectors && n <= 8 * MOST * (i64)blockDim.x) {
    float v[MOST][8];
    float sum = 0;
#pragma unroll
    for (int part = 0; part < MOST; ++part) {
      const i64 j = 8 * (threadIdx.x + part * (i64)blockDim.x);
      if (j < n) {
        read8(from + j, v[part]);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += v[part][k];
      }
    }
#ifdef CENTRED
    const float mean = over_block<Add>(sum, shared, 0.0f) / (float)n;
#else
    const float mean = 0;
#endif
    float squares = 0;
#pragma unroll
    for (int part = 0; part < MOST; ++part) {
      const i64 j = 8 * (threadIdx.x + part * (i64)blockDim.x);
      if (j < n) {
#pragma unroll
        for (int k = 0; k < 8; ++k) squares += (v[part][k] - mean) * (v[part][k] - mean);
      }
    }
    const float rstd = rsqrtf(over_block<Add>(squares, shared, 0.0f) / (float)n + eps);
    if (threadIdx.x == 0) {
      if (mean_out != 0) mean_out[row] = mean;
      if (rstd_out != 0) rstd_out[row] = rstd;
    }
    if (y == 0) return;
#pragma unroll
    for (int part = 0; part < MOST; ++part) {
      const i64 j = 8 * (threadIdx.x + part * (i64)blockDim.x);
      if (j < n) {
        float w[8], b[8];
        if (weight != 0) read8(weight + j, w);
        if (bias != 0) read8(bias + j, b);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          v[part][k] = (v[part][k] - mean) * rstd;
          if (weight != 0) v[part][k] *= w[k];
          if (bias != 0) v[part][k] += b[k];
        }
        write8(to + j, v[part]);
      }
    }
    return;
  }
  float sum = 0;
#ifdef CENTRED
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) sum += wide(from[j]);
  const float mean = over_block<Add>(sum, shared, 0.0f) / (float)n;
#else
  const float mean = 0;
#endif
  float squares = 0;
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
    const float d = wide(from[j]) - mean;
    squares += d * d;
  }
  const float rstd = rsqrtf(over_block<Add>(squares, shared, 0.0f) / (float)n + eps);
  if (threadIdx.x == 0) {
    if (mean_out != 0) mean_out[row] = mean;
    if (rstd_out != 0) rstd_out[row] = rstd;
  }
  if (y == 0) return;
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
    const i64 p = PARAMETER(j);
    float v = (wide(from[j]) - mean) * rstd;
    if (weight != 0) v *= wide(weight[p]);
    if (bias != 0) v += wide(bias[p]);
    to[j] = narrow<T>(v);
  }
}

// dx = rstd * (g - mean(g) - normal * mean(g * normal)), g = dy * weight.
KERNEL backward(i64 n, i64 groups, i64 of_group, i64 plane, T* dx, const T* dy, const T* x, const float* means, const float* rstds,
                const P* weight) {
  __shared__ float shared[32];
  const i64 row = blockIdx.x;
  const float rstd = rstds[row];
#ifdef CENTRED
  const float mean = means[row];
#else
  const float mean = 0;
#endif
  const bool vectors = n % 8 == 0 && is_aligned(x) && is_aligned(dx) && is_aligned(dy) && PLAIN && (weight == 0 || is_aligned(weight));
  if (vectors && n <= 8 * MOST * (i64)blockDim.x) {
    float g[MOST][8], v[MOST][8];
    float level = 0, slope = 0;
#pragma unroll
    for (int part = 0; part < MOST; ++part) {
      const i64 j = 8 * (threadIdx.x + part * (i64)blockDim.x);
      if (j < n) {
        float w[8];
        read8(dy + row * n + j, g[part]);
        read8(x + row * n + j, v[part]);
        if (weight != 0) read8(weight + j, w);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          if (weight != 0) g[part][k] *= w[k];
          v[part][k] = (v[part][k] - mean) * rstd;
          level += g[part][k];
          slope += g[part][k] * v[part][k];
        }
      }
    }
#ifdef CENTRED
    level = over_block<Add>(level, shared, 0.0f) / (float)n;
#else
    level = 0;
#endif
    slope = over_block<Add>(slope, shared, 0.0f) / (float)n;
#pragma unroll
    for (int part = 0; part < MOST; ++part) {
      const i64 j = 8 * (threadIdx.x + part * (i64)blockDim.x);
      if (j < n) {
#pragma unroll
        for (int k = 0; k < 8; ++k) g[part][k] = rstd * (g[part][k] - level - v[part][k] * slope);
        write8(dx + row * n + j, g[part]);
      }
    }
    return;
  }
  float level = 0, slope = 0;
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
    const float g = wide(dy[row * n + j]) * (weight != 0 ? wide(weight[PARAMETER(j)]) : 1.0f);
    level += g;
    slope += g * (wide(x[row * n + j]) - mean) * rstd;
  }
#ifdef CENTRED
  level = over_block<Add>(level, shared, 0.0f) / (float)n;
#else
  level = 0;
#endif
  slope = over_block<Add>(slope, shared, 0.0f) / (float)n;
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
    const float g = wide(dy[row * n + j]) * (weight != 0 ? wide(weight[PARAMETER(j)]) : 1.0f);
    const float normal = (wide(x[row * n + j]) - mean) * rstd;
    dx[row * n + j] = narrow<T>(rstd * (g - level - normal * slope));
  }
}

DEVICE i64 begin_of(i64 count, i64 part, i64 parts) { return count / parts * part + (part < count % parts ? part : count % parts); }

// Sums over rows of dy * normal and of dy, for columns; partial [parts][2][n]. Eight columns for a thread where they
// are whole vectors.
KERNEL columns8(i64 rows, i64 n, float* partial, const T* dy, const T* x, const float* means, const float* rstds) {
  const i64 j = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (j >= n) return;
  float dweight[8] = {}, dbias[8] = {};
  const i64 last = begin_of(rows, blockIdx.y + 1, gridDim.y);
#pragma unroll 4
  for (i64 row = begin_of(rows, blockIdx.y, gridDim.y); row < last; ++row) {
    float d[8], v[8];
    read8(dy + row * n + j, d);
    read8(x + row * n + j, v);
    const float rstd = rstds[row];
#ifdef CENTRED
    const float mean = means[row];
#else
    const float mean = 0;
#endif
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      dweight[k] += d[k] * (v[k] - mean) * rstd;
      dbias[k] += d[k];
    }
  }
  float* to = partial + (i64)blockIdx.y * 2 * n + j;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    to[k] = dweight[k];
    to[n + k] = dbias[k];
  }
}

KERNEL columns(i64 rows, i64 n, float* partial, const T* dy, const T* x, const float* means, const float* rstds) {
  const i64 j = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  float dweight = 0, dbias = 0;
  for (i64 row = begin_of(rows, blockIdx.y, gridDim.y); row < begin_of(rows, blockIdx.y + 1, gridDim.y); ++row) {
    const float d = wide(dy[row * n + j]);
#ifdef CENTRED
    const float mean = means[row];
#else
    const float mean = 0;
#endif
    dweight += d * (wide(x[row * n + j]) - mean) * rstds[row];
    dbias += d;
  }
  partial[(i64)blockIdx.y * 2 * n + j] = dweight;
  partial[(i64)blockIdx.y * 2 * n + n + j] = dbias;
}

// Of group_norm: a block for each channel, over samples and plane.
KERNEL channels(i64 samples, i64 count, i64 groups, i64 of_group, i64 plane, P* dweight, P* dbias, const T* dy, const T* x,
                const float* means, const float* rstds) {
  __shared__ float shared[32];
  const i64 channel = blockIdx.x;
  float weight_sum = 0, bias_sum = 0;
  for (i64 i = threadIdx.x; i < samples * plane; i += blockDim.x) {
    const i64 sample = i / plane;
    const i64 at = (sample * count + channel) * plane + i % plane;
    const i64 s = sample * groups + channel / of_group;
    const float d = wide(dy[at]);
    weight_sum += d * (wide(x[at]) - means[s]) * rstds[s];
    bias_sum += d;
  }
  weight_sum = over_block<Add>(weight_sum, shared, 0.0f);
  bias_sum = over_block<Add>(bias_sum, shared, 0.0f);
  if (threadIdx.x > 0) return;
  if (dweight != 0) dweight[channel] = narrow<P>(weight_sum);
  if (dbias != 0) dbias[channel] = narrow<P>(bias_sum);
}

// Blocks of 32 columns and 8 parts at a time.
KERNEL finish(i64 parts, i64 n, const float* partial, P* dweight, P* dbias) {
  __shared__ float shared[2][8][32];
  const i64 j = (i64)blockIdx.x * 32 + threadIdx.x;
  float weight_sum = 0, bias_sum = 0;
  if (j < n) {
#pragma unroll 4
    for (i64 part = threadIdx.y; part < parts; part += 8) {
      weight_sum += partial[part * 2 * n + j];
      bias_sum += partial[part * 2 * n + n + j];
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = weight_sum;
  shared[1][threadIdx.y][threadIdx.x] = bias_sum;
  __syncthreads();
  if (threadIdx.y > 0 || j >= n) return;
  for (int k = 1; k < 8; ++k) {
    weight_sum += shared[0][k][threadIdx.x];
    bias_sum += shared[1][k][threadIdx.x];
  }
  if (dweight != 0) dweight[j] = narrow<P>(weight_sum);
  if (dbias != 0) dbias[j] = narrow<P>(bias_sum);
}

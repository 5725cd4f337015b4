// Normalisation of channels of x [rows, channels], what follows it included: a ReLU, and before that a residual where
// there is one. Blocks of 256: LANES lanes of VEC channels, the other threads for rows.
//   T    element type    VEC   8 where channels are whole vectors of as many, 4 of f32; 1 otherwise, without a ReLU
//
// All blocks go through the rows together. Sums are taken from the last row to the first and what follows is computed
// from the first to the last, so that each pass begins with what the one before left in the cache.
#define ROWS_OF_BLOCK (256 / LANES)

#if VEC == 8
#define READ(from, to) read8(from, to)
#define WRITE(to, from) write8(to, from)
#elif VEC == 4
DEVICE void read4(const float* from, float* to) {
#ifdef ALIGNED
  *(float4*)to = *(const float4*)from;
#else
  for (int k = 0; k < 4; ++k) to[k] = from[k];
#endif
}
DEVICE void write4(float* to, const float* from) {
#ifdef ALIGNED
  *(float4*)to = *(const float4*)from;
#else
  for (int k = 0; k < 4; ++k) to[k] = from[k];
#endif
}
#define READ(from, to) read4(from, to)
#define WRITE(to, from) write4(to, from)
#else
#define READ(from, to) (to)[0] = wide(*(from))
#define WRITE(to, from) *(to) = narrow<T>((from)[0])
#endif

DEVICE i64 first_row() { return (i64)blockIdx.y * ROWS_OF_BLOCK + threadIdx.y; }
DEVICE i64 next_rows() { return (i64)gridDim.y * ROWS_OF_BLOCK; }
DEVICE i64 first_channel() { return VEC * ((i64)blockIdx.x * LANES + threadIdx.x); }

// The bits of VEC elements, of which a byte has eight: those of four are half of it, and lanes side by side have both.
DEVICE u32 bits_at(const u8* mask, i64 at) { return (u32)mask[at / 8] >> (at & 7); }
DEVICE void set_bits(u8* mask, i64 at, u32 bits) {
#if VEC == 4
  bits |= __shfl_down_sync(__activemask(), bits, 1) << 4;
  if ((at & 4) != 0) return;
#endif
  mask[at / 8] = (u8)bits;
}

// Elements where their bits are set.
DEVICE void keep_set(float* v, u32 bits) {
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    if ((bits >> k & 1) == 0) v[k] = 0;
  }
}

// Values are summed as distances from the first row's.
KERNEL moments(i64 rows, i64 channels, Moments* partial, const T* x) {
  __shared__ Moments shared[ROWS_OF_BLOCK][LANES][VEC];
  const i64 c = first_channel();
  __align__(16) float near[VEC] = {};
  float sum[VEC] = {}, squares[VEC] = {}, count = 0;
  const auto add = [&](const float* v) {
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
      const float d = v[k] - near[k];
      sum[k] += d;
      squares[k] += d * d;
    }
    count += 1;
  };
  if (c < channels) {
    READ(x + c, near);
    for (i64 row = rows - 1 - first_row(); row >= 0; row -= next_rows()) {
      __align__(16) float v[VEC];
      READ(x + row * channels + c, v);
      add(v);
    }
  }
#pragma unroll
  for (int k = 0; k < VEC; ++k) shared[threadIdx.y][threadIdx.x][k] = moments_of(count, near[k], sum[k], squares[k]);
  __syncthreads();
  // A thread for each channel, in the order of rows.
  const int at = threadIdx.y * LANES + threadIdx.x;
  const i64 own = VEC * (i64)blockIdx.x * LANES + at;
  if (at >= LANES * VEC || own >= channels) return;
  Moments all = shared[0][at / VEC][at % VEC];
  for (int row = 1; row < ROWS_OF_BLOCK; ++row) all = joined(all, shared[row][at / VEC][at % VEC]);
  partial[(i64)blockIdx.y * channels + own] = all;
}

// Sums of dy and of dy * normal; partial [parts][2][channels]. With RELU dy counts where the mask is set.
KERNEL slopes(i64 rows, i64 channels, float* partial, const T* dy, const u8* mask, const T* x, const float* means, const float* rstds) {
  __shared__ float shared[ROWS_OF_BLOCK][2][LANES][VEC];
  const i64 c = first_channel();
  float level[VEC] = {}, slope[VEC] = {}, mean[VEC] = {};
  const auto add = [&](const float* d, const float* v) {
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
      level[k] += d[k];
      slope[k] += d[k] * (v[k] - mean[k]);
    }
  };
  if (c < channels) {
#pragma unroll
    for (int k = 0; k < VEC; ++k) mean[k] = means[c + k];
    for (i64 row = rows - 1 - first_row(); row >= 0; row -= next_rows()) {
      __align__(16) float d[VEC], v[VEC];
      READ(dy + row * channels + c, d);
      READ(x + row * channels + c, v);
#ifdef RELU
      keep_set(d, bits_at(mask, row * channels + c));
#endif
      add(d, v);
    }
  }
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    shared[threadIdx.y][0][threadIdx.x][k] = level[k];
    shared[threadIdx.y][1][threadIdx.x][k] = slope[k];
  }
  __syncthreads();
  const int at = threadIdx.y * LANES + threadIdx.x;
  const i64 own = VEC * (i64)blockIdx.x * LANES + at;
  if (at >= LANES * VEC || own >= channels) return;
  float level_sum = 0, slope_sum = 0;
  for (int row = 0; row < ROWS_OF_BLOCK; ++row) {
    level_sum += shared[row][0][at / VEC][at % VEC];
    slope_sum += shared[row][1][at / VEC][at % VEC];
  }
  partial[(i64)blockIdx.y * 2 * channels + own] = level_sum;
  partial[(i64)blockIdx.y * 2 * channels + channels + own] = slope_sum * rstds[own];
}

// y = scale * x + shift.
KERNEL apply(i64 rows, i64 channels, T* y, const T* x, const float* scale_shift) {
  const i64 c = first_channel();
  if (c >= channels) return;
  float scale[VEC], shift[VEC];
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    scale[k] = scale_shift[c + k];
    shift[k] = scale_shift[channels + c + k];
  }
  for (i64 row = first_row(); row < rows; row += next_rows()) {
    __align__(16) float v[VEC];
    READ(x + row * channels + c, v);
#pragma unroll
    for (int k = 0; k < VEC; ++k) v[k] = v[k] * scale[k] + shift[k];
    WRITE(y + row * channels + c, v);
  }
}

#if VEC > 1
// The same with the residual and the ReLU, by the statistics. P: type of weight and bias.
KERNEL apply_relu(i64 rows, i64 channels, T* y, u8* mask, const T* x, const T* residual, const float* mean, const float* rstd,
                  const P* weight, const P* bias) {
  const i64 c = first_channel();
  if (c >= channels) return;
  float scale[VEC], shift[VEC];
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    scale[k] = rstd[c + k] * wide(weight[c + k]);
    shift[k] = wide(bias[c + k]) - mean[c + k] * scale[k];
  }
  for (i64 row = first_row(); row < rows; row += next_rows()) {
    const i64 at = row * channels + c;
    __align__(16) float v[VEC];
    READ(x + at, v);
#ifdef RESIDUAL
    __align__(16) float r[VEC];
    READ(residual + at, r);
#endif
    u32 taken = 0;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
      v[k] = v[k] * scale[k] + shift[k];
#ifdef RESIDUAL
      v[k] += r[k];
#endif
      if (v[k] > 0) taken |= 1u << k;
      if (v[k] <= 0) v[k] = 0;
    }
    if (y != 0) WRITE(y + at, v);
    if (mask != 0) set_bits(mask, at, taken);
  }
}
#endif

// dx = a * dy + b * x + c for the factors of each channel, with RELU of dy where the mask is set, which `dresidual` gets.
KERNEL apply_backward(i64 rows, i64 channels, T* dx, T* dresidual, const T* dy, const u8* mask, const T* x, const float* factors) {
  const i64 c = first_channel();
  if (c >= channels) return;
  float fa[VEC], fb[VEC], fc[VEC];
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    fa[k] = factors[c + k];
    fb[k] = factors[channels + c + k];
    fc[k] = factors[2 * channels + c + k];
  }
  for (i64 row = first_row(); row < rows; row += next_rows()) {
    const i64 at = row * channels + c;
    __align__(16) float d[VEC], v[VEC];
    READ(dy + at, d);
    READ(x + at, v);
#ifdef RELU
    keep_set(d, bits_at(mask, at));
    if (dresidual != 0) WRITE(dresidual + at, d);
#endif
#pragma unroll
    for (int k = 0; k < VEC; ++k) d[k] = fa[k] * d[k] + fb[k] * v[k] + fc[k];
    if (dx != 0) WRITE(dx + at, d);
  }
}

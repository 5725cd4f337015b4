// Updates whose state is held in codes (program/ops/state_code.h); a block of 256 threads for each 256 elements.
DEVICE float share_of(u32 code, u32 top) { return __uint_as_float(code == 0 ? 0 : ((0x3F800000u >> 20) - top + code) << 20); }
DEVICE u32 code_of(float share, u32 top, u32 chance) {
  const float smallest = share_of(1, top);
  const float raised = __fadd_rn(share, __fmul_rn(smallest, __fmul_rn((float)(i32)chance, 9.5367431640625e-07f)));
  const u32 reaches = __float_as_uint(raised) >= __float_as_uint(smallest) ? 1 : 0;
  const u32 level = (__float_as_uint(share) + chance) >> 20;
  const u32 code = min(level - ((0x3F800000u >> 20) - top), top);
  return __float_as_uint(share) < __float_as_uint(smallest) ? reaches : code;
}
DEVICE u8 signed_code(float share, u32 chance) {
  const u32 bits = __float_as_uint(share);
  return (u8)(code_of(__uint_as_float(bits & 0x7FFFFFFFu), 127, chance) | (bits >> 24 & 0x80u));
}
DEVICE float signed_share(u8 code) { return __uint_as_float(__float_as_uint(share_of(code & 0x7Fu, 127)) | (code & 0x80u) << 24); }
DEVICE u8 unsigned_code(float share, u32 chance) { return (u8)max(code_of(share, 255, chance), min(__float_as_uint(share), 1u)); }
DEVICE u32 scrambled(u32 x) {
  x = (x ^ x >> 16) * 0x85EBCA6Bu;
  x = (x ^ x >> 13) * 0xC2B2AE35u;
  return x ^ x >> 16;
}

// The scale of the block, the largest in size of its values.
DEVICE float scale_of(float v, float* shared) { return over_block<Larger>(fabsf(v), shared, 0.0f); }
DEVICE float share_in(float v, float scale) { return scale > 0 ? v / scale : 0; }

#ifdef MOMENTUM
KERNEL run(i64 n, W* w, const W* dw, u8* velocity, float* scales, const STEP* step, const RATE* rate_at, const SCALE* scale_at, float keep,
           i32 nesterov, float decay) {
  __shared__ float shared[32];
  const float rate = wide(rate_at[0]), factor = scale_at != 0 ? wide(scale_at[0]) : 1.0f;
  if (factor != factor) return;
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  float moved = 0;
  if (i < n) {
    const float v = wide(w[i]);
    const float gradient = factor * wide(dw[i]) + decay * v;
    moved = keep * (signed_share(velocity[i]) * scales[blockIdx.x]) + gradient;
    w[i] = narrow<W>(v - rate * (nesterov ? gradient + keep * moved : moved));
  }
  const float scale = scale_of(moved, shared);
  __syncthreads();
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  const u32 bits = scrambled(scrambled((u32)step[0] * 0x9E3779B9u) + (u32)i);
  if (i < n) velocity[i] = signed_code(share_in(moved, scale), bits & ((1u << 20) - 1));
}
#endif

#ifdef ADAM
KERNEL run(i64 n, W* w, const W* dw, u8* means, float* mean_scales, u8* squares, float* square_scales, const STEP* step,
           const RATE* rate_at, const SCALE* scale_at, double beta1, double beta2, float eps, float decay) {
  __shared__ float shared[32];
  __shared__ float shares[2];
  const float rate = wide(rate_at[0]), factor = scale_at != 0 ? wide(scale_at[0]) : 1.0f;
  if (factor != factor) return;
  if (threadIdx.x == 0) {
    shares[0] = (float)(1 - pow(beta1, (double)step[0]));
    shares[1] = (float)(1 - pow(beta2, (double)step[0]));
  }
  __syncthreads();
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  float mean = 0, square = 0;
  if (i < n) {
    const float v = wide(w[i]);
    const float gradient = factor * wide(dw[i]) + (DECOUPLED ? 0.0f : decay * v);
    mean = (float)beta1 * (signed_share(means[i]) * mean_scales[blockIdx.x]) + (float)(1 - beta1) * gradient;
    square = (float)beta2 * (share_of(squares[i], 255) * square_scales[blockIdx.x]) + (float)(1 - beta2) * gradient * gradient;
    const float kept = DECOUPLED ? v * (1 - rate * decay) : v;
    w[i] = narrow<W>(kept - rate * (mean / shares[0]) / (sqrtf(square / shares[1]) + eps));
  }
  const float mean_scale = scale_of(mean, shared);
  __syncthreads();
  const float square_scale = scale_of(square, shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    mean_scales[blockIdx.x] = mean_scale;
    square_scales[blockIdx.x] = square_scale;
  }
  if (i >= n) return;
  const u32 bits = scrambled(scrambled((u32)step[0] * 0x9E3779B9u) + (u32)i);
  means[i] = signed_code(share_in(mean, mean_scale), bits & ((1u << 20) - 1));
  squares[i] = unsigned_code(share_in(square, square_scale), bits >> 12);
}
#endif

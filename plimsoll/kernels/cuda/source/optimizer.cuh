// Updates. W the parameter's type, S0 and S1 those of the state; RATE, SCALE those of the two numbers.
#ifdef SGD
KERNEL run(i64 n, W* w, const W* dw, const RATE* rate_at, const SCALE* scale_at, float decay) {
  const float rate = wide(rate_at[0]), scale = scale_at != 0 ? wide(scale_at[0]) : 1.0f;
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || scale != scale) return;
  const float v = wide(w[i]);
  w[i] = narrow<W>(v - rate * (scale * wide(dw[i]) + decay * v));
}
#endif

#ifdef MOMENTUM
KERNEL run(i64 n, W* w, const W* dw, S0* velocity, const RATE* rate_at, const SCALE* scale_at, float keep, i32 nesterov, float decay) {
  const float rate = wide(rate_at[0]), scale = scale_at != 0 ? wide(scale_at[0]) : 1.0f;
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || scale != scale) return;
  const float v = wide(w[i]);
  const float gradient = scale * wide(dw[i]) + decay * v;
  const float moved = keep * wide(velocity[i]) + gradient;
  velocity[i] = narrow<S0>(moved);
  w[i] = narrow<W>(v - rate * (nesterov ? gradient + keep * moved : moved));
}
#endif

#ifdef LION
KERNEL run(i64 n, W* w, const W* dw, S0* means, const RATE* rate_at, const SCALE* scale_at, float beta1, float beta2, float decay) {
  const float rate = wide(rate_at[0]), scale = scale_at != 0 ? wide(scale_at[0]) : 1.0f;
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || scale != scale) return;
  const float gradient = scale * wide(dw[i]), mean = wide(means[i]);
  w[i] = narrow<W>(wide(w[i]) * (1 - rate * decay) - rate * sign(beta1 * mean + (1 - beta1) * gradient));
  means[i] = narrow<S0>(beta2 * mean + (1 - beta2) * gradient);
}
#endif

#ifdef ADAM
KERNEL run(i64 n, W* w, const W* dw, S0* means, S1* squares, const STEP* step, const RATE* rate_at, const SCALE* scale_at, double beta1,
           double beta2, double log_beta1, double log_beta2, float eps, float decay) {
  __shared__ float shares[2];  // what to multiply by, for sums that began at zero
  const float rate = wide(rate_at[0]), scale = scale_at != 0 ? wide(scale_at[0]) : 1.0f;
  if (threadIdx.x == 0) {
    shares[0] = (float)(-1 / expm1((double)step[0] * log_beta1));
    shares[1] = (float)(-1 / expm1((double)step[0] * log_beta2));
  }
  __syncthreads();
  if (scale != scale) return;
  const float b1 = (float)beta1, b2 = (float)beta2, c1 = (float)(1 - beta1), c2 = (float)(1 - beta2);
  for (i64 i = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x); i < n; i += 8 * (i64)gridDim.x * blockDim.x) {
    float v[8], slope[8], mean[8], square[8];
    const int count = n - i < 8 ? (int)(n - i) : 8;
    if (count == 8) {
      load8(w + i, v);
      load8(dw + i, slope);
      load8(means + i, mean);
      load8(squares + i, square);
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const i64 at = k < count ? i + k : i;
        v[k] = wide(w[at]);
        slope[k] = wide(dw[at]);
        mean[k] = wide(means[at]);
        square[k] = wide(squares[at]);
      }
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float gradient = scale * slope[k] + (DECOUPLED ? 0.0f : decay * v[k]);
      mean[k] = b1 * mean[k] + c1 * gradient;
      square[k] = b2 * square[k] + c2 * gradient * gradient;
      const float kept = DECOUPLED ? v[k] * (1 - rate * decay) : v[k];
      v[k] = kept - rate * (mean[k] * shares[0]) / (sqrtf(square[k] * shares[1]) + eps);
    }
    if (count == 8) {
      store8(w + i, v);
      store8(means + i, mean);
      store8(squares + i, square);
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        if (k >= count) continue;
        w[i + k] = narrow<W>(v[k]);
        means[i + k] = narrow<S0>(mean[k]);
        squares[i + k] = narrow<S1>(square[k]);
      }
    }
  }
}
#endif

#ifdef SCALARS
KERNEL next_step(STEP* step) { step[0] = step[0] + 1; }
KERNEL loss_scale(const i64* state, float* scale, i32 first) { scale[0] = ldexpf(1.0f, (int)(first + state[0])); }
KERNEL next_loss_scale(i64* state, const RATE* norm, i64 most) {
  const i64 power = state[0], steps = state[1] + 1;
  const bool finite = isfinite((float)wide(norm[0]));
  state[0] = !finite ? power - 1 : steps == most ? power + 1 : power;
  state[1] = !finite || steps == most ? 0 : steps;
}
KERNEL unscale(RATE* factor, const RATE* scale, const RATE* norm) {
  factor[0] = narrow<RATE>(isfinite((float)wide(norm[0])) ? 1 / wide(scale[0]) : NOT_A_NUMBER);
}
KERNEL clip_scale(RATE* scale, const RATE* norm, float most) {
  scale[0] = narrow<RATE>(fminf(1.0f, most / (float)(wide(norm[0]) + 1e-6f)));
}
KERNEL root_of_sums(i64 n, const float* sums, RATE* norm) {
  __shared__ float shared[32];
  float sum = 0;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += sums[i];
  sum = over_block<Add>(sum, shared, 0.0f);
  if (threadIdx.x == 0) norm[0] = narrow<RATE>(sqrtf(sum));
}
#endif

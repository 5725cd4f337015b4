// Numbers as bytes (program/quantization.h).
#ifdef ROWS
KERNEL run(i64 columns, OUT* bytes, float* scales, const float* x, float most, float least) {
  __shared__ float shared[32];
  const float* row = x + (i64)blockIdx.x * columns;
  float largest = 0;
  for (i64 i = threadIdx.x; i < columns; i += blockDim.x) largest = Larger::of(largest, fabsf(row[i]));
  largest = over_block<Larger>(largest, shared, 0.0f);
  float inverse = most / largest;
  if (!isfinite(inverse)) inverse = 0;
  if (threadIdx.x == 0 && scales != 0) scales[blockIdx.x] = largest / most;
  if (bytes == 0) return;
  for (i64 i = threadIdx.x; i < columns; i += blockDim.x) {
    const float scaled = rintf(__fmul_rn(row[i], inverse));
    bytes[(i64)blockIdx.x * columns + i] = (OUT)(scaled != scaled ? 0 : (i64)fminf(fmaxf(scaled, least), most));
  }
}
#endif

#ifdef LINEAR
KERNEL run(i64 rows, i64 ins, i64 outs, float* y, const T* x, const i8* w, const float* x_scale, const float* w_scale, const float* bias) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * outs) return;
  const i64 row = i / outs, o = i % outs;
  i32 sum = 0;
  for (i64 k = 0; k < ins; ++k) sum += (i32)x[row * ins + k] * (i32)w[o * ins + k];
  const float v = (float)sum * (x_scale[row] * w_scale[o]);
  y[i] = bias != 0 ? v + bias[o] : v;
}
#endif

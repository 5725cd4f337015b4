// The sum of LOSS(x, t) over all elements in gridDim.x parts; a second launch of one block adds them up.
KERNEL parts(i64 n, float* partial, const T* xs, const T* ts, float p0) {
  __shared__ float shared[32];
  float sum = 0;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
    const float x = wide(xs[i]), t = wide(ts[i]);
    sum += LOSS;
  }
  sum = over_block<Add>(sum, shared, 0.0f);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

KERNEL finish(i64 n, const float* partial, float* loss, float divisor) {
  __shared__ float shared[32];
  float sum = 0;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
  sum = over_block<Add>(sum, shared, 0.0f);
  if (threadIdx.x == 0) loss[0] = sum / divisor;
}

KERNEL each(i64 n, float* loss, const T* xs, const T* ts, float p0) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = wide(xs[i]), t = wide(ts[i]);
  loss[i] = LOSS;
}

KERNEL backward(i64 n, T* dx, const float* dloss, i32 is_each, const T* xs, const T* ts, float divisor, float p0) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = wide(xs[i]), t = wide(ts[i]);
  dx[i] = narrow<T>((SLOPE) * dloss[is_each ? i : 0] / divisor);
}

// Along lines of n elements, `stride` apart: line l begins at l / stride * n * stride + l % stride. A block for each
// line, whatever the stride.
//   T, LOG (log_softmax), BACKWARD
KERNEL run(i64 n, i64 stride, T* y, const T* x, const T* second) {
  __shared__ float shared[32];
  const i64 line = blockIdx.x;
  const i64 start = line / stride * n * stride + line % stride;
#ifdef BACKWARD
  float sum = 0;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const i64 at = start + i * stride;
#ifdef LOG
    sum += wide(x[at]);
#else
    sum += wide(x[at]) * wide(second[at]);
#endif
  }
  sum = over_block<Add>(sum, shared, 0.0f);
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const i64 at = start + i * stride;
    const float dy = wide(x[at]), out = wide(second[at]);
#ifdef LOG
    y[at] = narrow<T>(dy - expf(out) * sum);
#else
    y[at] = narrow<T>(out * (dy - sum));
#endif
  }
#else
  float largest = -INFINITE;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) largest = Larger::of(largest, wide(x[start + i * stride]));
  largest = over_block<Larger>(largest, shared, -INFINITE);
  float sum = 0;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += expf(wide(x[start + i * stride]) - largest);
  sum = over_block<Add>(sum, shared, 0.0f);
#ifdef LOG
  const float log_sum = logf(sum);
#else
  const float inverse = 1 / sum;
#endif
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const i64 at = start + i * stride;
#ifdef LOG
    y[at] = narrow<T>(wide(x[at]) - largest - log_sum);
#else
    y[at] = narrow<T>(expf(wide(x[at]) - largest) * inverse);
#endif
  }
#endif
}

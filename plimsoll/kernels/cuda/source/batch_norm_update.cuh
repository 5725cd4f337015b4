// Running statistics; T0 .. T3 their types and those of the batch.
KERNEL run(i64 n, T0* mean, T1* variance, const T2* batch_mean, const T3* batch_variance, float momentum, float unbiased) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  mean[i] = narrow<T0>((1 - momentum) * wide(mean[i]) + momentum * wide(batch_mean[i]));
  variance[i] = narrow<T1>((1 - momentum) * wide(variance[i]) + momentum * wide(batch_variance[i]) * unbiased);
}

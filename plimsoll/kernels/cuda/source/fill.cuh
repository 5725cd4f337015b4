KERNEL run(i64 n, OUT* y, double value) {
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) y[i] = narrow<OUT>(VALUE);
}

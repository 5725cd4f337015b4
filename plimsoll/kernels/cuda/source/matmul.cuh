// C[i,j] = sum over k of A[i,k] * B[k,j], where there is no library: tiles of 64 x 64, a 4 x 4 piece for each of 256
// threads. Elements lie by strides; a batch is found by Walks. What is added to: `before`, where not null.
//   TA, TB, TC
KERNEL run(i64 m, i64 n, i64 k, const TA* a, i64 a_row, i64 a_column, const TB* b, i64 b_row, i64 b_column, TC* c, i64 c_row,
           const TC* bias, i32 adds, Walk batch_a, Walk batch_b, Walk batch_c, i64 summed, Walk summed_a, Walk summed_b) {
  __shared__ float tile_a[16][65];
  __shared__ float tile_b[16][65];
  const i64 batch = blockIdx.z;
  const i64 row = (i64)blockIdx.y * 64, column = (i64)blockIdx.x * 64;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[4][4] = {};
  for (i64 s = 0; s < summed; ++s) {
    const TA* from_a = a + place(batch_a, batch) + place(summed_a, s);
    const TB* from_b = b + place(batch_b, batch) + place(summed_b, s);
    for (i64 start = 0; start < k; start += 16) {
      for (int e = threadIdx.x; e < 16 * 64; e += 256) {
        const int kk = e % 16, r = e / 16;
        const bool in_a = row + r < m && start + kk < k;
        tile_a[kk][r] = in_a ? wide(from_a[(row + r) * a_row + (start + kk) * a_column]) : 0.0f;
        const bool in_b = column + r < n && start + kk < k;
        tile_b[kk][r] = in_b ? wide(from_b[(start + kk) * b_row + (column + r) * b_column]) : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int kk = 0; kk < 16; ++kk) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += tile_a[kk][ty * 4 + i] * tile_b[kk][tx * 4 + j];
        }
      }
      __syncthreads();
    }
  }
  TC* to = c + place(batch_c, batch);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const i64 r = row + ty * 4 + i, col = column + tx * 4 + j;
      if (r >= m || col >= n) continue;
      float v = sum[i][j];
      if (bias != 0) v += wide(bias[col]);
      if (adds) v += wide(to[r * c_row + col]);
      to[r * c_row + col] = narrow<TC>(v);
    }
  }
}

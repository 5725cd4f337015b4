// [batch, rows, columns] to [batch, columns, rows], in tiles of 32 x 32 through shared memory; blocks of 32 x 8.
KERNEL run(i64 rows, i64 columns, UNIT* to, const UNIT* from) {
  __shared__ UNIT tile[32][33];
  const i64 base = (i64)blockIdx.z * rows * columns;
  const i64 row = (i64)blockIdx.y * 32, column = (i64)blockIdx.x * 32;
  for (int k = threadIdx.y; k < 32; k += 8) {
    if (row + k < rows && column + threadIdx.x < columns) {
      tile[k][threadIdx.x] = from[base + (row + k) * columns + column + threadIdx.x];
    }
  }
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += 8) {
    if (column + k < columns && row + threadIdx.x < rows) {
      to[base + (column + k) * rows + row + threadIdx.x] = tile[threadIdx.x][k];
    }
  }
}

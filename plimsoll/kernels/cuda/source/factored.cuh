// Adafactor (program/ops/factored.h) of w [rows, columns]; a vector has one row, and no means by rows. S0 and S1 are the
// types of the means by rows and columns. Nothing is done where the scale is no number.
DEVICE float scale_of(const SCALE* at) { return at != 0 ? wide(at[0]) : 1.0f; }
DEVICE float share_of(const STEP* step) { return (float)pow((double)step[0], -0.8); }

// Means of squares: what is new is sums of squares of dw over `count` elements each.
template <class S>
DEVICE void take_in(i64 n, S* means, const float* sums, float count, float scale, float share) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || scale != scale) return;
  means[i] = narrow<S>((1 - share) * wide(means[i]) + share * (scale * scale * (sums[i] / count)));
}
KERNEL take_in_rows(i64 n, S0* means, const float* sums, float count, const STEP* step, const SCALE* scale) {
  take_in(n, means, sums, count, scale_of(scale), share_of(step));
}
KERNEL take_in_columns(i64 n, S1* means, const float* sums, float count, const STEP* step, const SCALE* scale) {
  take_in(n, means, sums, count, scale_of(scale), share_of(step));
}

// What row i's columns are multiplied with: its share of the mean of all rows.
DEVICE float row_share(const S0* of_rows, const float* rows_sum, i64 rows, i64 row) {
  if (of_rows == 0) return 1;
  return wide(of_rows[row]) / fmaxf(rows_sum[0] / (float)rows, 1.1920929e-07f);
}
DEVICE float update_of(float gradient, float row, float column) {
  return gradient / sqrtf(fmaxf(row * column, 1.1920929e-07f * 1.1920929e-07f));
}

// Sums of squares of the update and of w: partial [gridDim.x][2].
KERNEL sizes(i64 rows, i64 columns, const W* w, const W* dw, const S0* of_rows, const S1* of_columns, const float* rows_sum,
             const SCALE* scale_at, float* partial) {
  __shared__ float shared[32];
  const float scale = scale_of(scale_at);
  float of_update = 0, of_w = 0;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += (i64)gridDim.x * blockDim.x) {
    const float update =
        update_of(scale * wide(dw[i]), row_share(of_rows, rows_sum, rows, i / columns), wide(of_columns[i % columns]));
    of_update += update * update;
    of_w += wide(w[i]) * wide(w[i]);
  }
  of_update = over_block<Add>(of_update, shared, 0.0f);
  of_w = over_block<Add>(of_w, shared, 0.0f);
  if (threadIdx.x > 0) return;
  partial[2 * blockIdx.x] = of_update;
  partial[2 * blockIdx.x + 1] = of_w;
}

// How far to go: one number, by one block.
KERNEL length(i64 parts, float count, const float* partial, const STEP* step, const RATE* rate, float* clipped) {
  __shared__ float shared[32];
  float of_update = 0, of_w = 0;
  for (i64 i = threadIdx.x; i < parts; i += blockDim.x) {
    of_update += partial[2 * i];
    of_w += partial[2 * i + 1];
  }
  of_update = over_block<Add>(of_update, shared, 0.0f);
  of_w = over_block<Add>(of_w, shared, 0.0f);
  if (threadIdx.x > 0) return;
  const float size = fmaxf(1e-3f, sqrtf(of_w / count)) * fminf(wide(rate[0]), rsqrtf((float)step[0]));
  clipped[0] = size / fmaxf(1.0f, sqrtf(of_update / count));
}

KERNEL go(i64 rows, i64 columns, W* w, const W* dw, const S0* of_rows, const S1* of_columns, const float* rows_sum,
          const float* clipped, const RATE* rate, const SCALE* scale_at, float decay) {
  const float scale = scale_of(scale_at);
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * columns || scale != scale) return;
  const float update =
      update_of(scale * wide(dw[i]), row_share(of_rows, rows_sum, rows, i / columns), wide(of_columns[i % columns]));
  w[i] = narrow<W>(wide(w[i]) * (1 - wide(rate[0]) * decay) - clipped[0] * update);
}

// Rows of 2-byte elements from one pitch to another, eight elements of the target for a thread: whole vectors are read
// and written wherever rows begin. Of `to`, columns beyond `columns` become zero, up to `to_columns`.
DEVICE uint4 load_unaligned(const i16* from) {
  const u32 off = (u32)((u64)from >> 1) & 7;
  const uint4* const at = (const uint4*)(from - off);
  const uint4 low = at[0];
  if (off == 0) return low;
  const uint4 high = at[1];  // has the last of the eight
  u32 w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  if (off & 4) {
#pragma unroll
    for (int k = 0; k < 6; ++k) w[k] = w[k + 2];
  }
  if (off & 2) {
#pragma unroll
    for (int k = 0; k < 7; ++k) w[k] = w[k + 1];
  }
  if (off & 1) {
#pragma unroll
    for (int k = 0; k < 4; ++k) w[k] = __funnelshift_r(w[k], w[k + 1], 16);
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

KERNEL run(i64 columns, i64 to_columns, const i16* from, i64 from_pitch, i16* to, i64 to_pitch) {
  const i16* const source = from + (i64)blockIdx.y * from_pitch;
  i16* const target = to + (i64)blockIdx.y * to_pitch;
  const i64 off = (i64)((u64)target >> 1 & 7);  // of the row, from a vector's boundary
  const i64 column = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x) - off;
  if (column >= to_columns) return;
  if (column >= 0 && column + 8 <= columns) {
    *(uint4*)(target + column) = load_unaligned(source + column);
    return;
  }
  for (i64 c = column < 0 ? 0 : column; c < column + 8 && c < to_columns; ++c) target[c] = c < columns ? source[c] : (i16)0;
}

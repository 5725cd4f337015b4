// Rows of 2-byte elements from one pitch to another, eight elements for a thread. Of `from` and `to` at least one has its rows on
// 16-byte boundaries.
KERNEL run(i64 columns, const i16* from, i64 from_pitch, i16* to, i64 to_pitch) {
  const i64 column = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns) return;
  const i16* source = from + (i64)blockIdx.y * from_pitch + column;
  i16* target = to + (i64)blockIdx.y * to_pitch + column;
  union {
    uint4 whole;
    i16 element[8];
  } all;
  const int count = columns - column < 8 ? (int)(columns - column) : 8;
  if (count == 8 && is_aligned(source)) {
    all.whole = *(const uint4*)source;
  } else {
#pragma unroll
    for (int k = 0; k < 8; ++k) all.element[k] = k < count ? source[k] : (i16)0;
  }
  if (count == 8 && is_aligned(target)) {
    *(uint4*)target = all.whole;
  } else {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (k < count) target[k] = all.element[k];
    }
  }
}

// A thread has eight elements. The seed is read on the device: [seed] or [seed, first row].
KERNEL run(i64 n, i64 of_row, T* y, const T* x, const i64* seed, i32 has_place, u64 stream, i64 offset, u64 threshold, float scale) {
  const i64 at = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= n) return;
  const u64 first = (u64)(offset + (has_place ? seed[1] * of_row : 0)) + (u64)at;
  const u64 key = (u64)seed[0];
  const int count = n - at < 8 ? (int)(n - at) : 8;
  u32 bits[8];
  if ((first & 3) == 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Words words = philox(first / 4 + half, stream, key);
#pragma unroll
      for (int k = 0; k < 4; ++k) bits[4 * half + k] = words.word[k];
    }
  } else {
    for (int k = 0; k < 8; ++k) bits[k] = random_bits(key, stream, first + k);
  }
  float v[8];
  if (count == 8) {
    load8(x + at, v);
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = (u64)bits[k] >= threshold ? v[k] * scale : 0.0f;
    store8(y + at, v);
    return;
  }
  for (int k = 0; k < count; ++k) y[at + k] = narrow<T>((u64)bits[k] >= threshold ? wide(x[at + k]) * scale : 0.0f);
}

// A thread has eight elements. The seed is read on the device: [seed] or [seed, first row].
KERNEL run(i64 n, i64 of_row, T* y, const T* x, const i64* seed, i32 has_place, u64 stream, i64 offset, u64 threshold, float scale) {
  const i64 at = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= n) return;
  const u64 first = (u64)(offset + (has_place ? seed[1] * of_row : 0));
  const u64 key = (u64)seed[0];
  Words words = {};
  for (int k = 0; k < 8 && at + k < n; ++k) {
    const u64 index = first + (u64)(at + k);
    if (k == 0 || (index & 3) == 0) words = philox(index / 4, stream, key);
    const u32 which = (u32)(index & 3);
    const u32 bits = which == 0 ? words.word[0] : which == 1 ? words.word[1] : which == 2 ? words.word[2] : words.word[3];
    y[at + k] = narrow<T>((u64)bits >= threshold ? wide(x[at + k]) * scale : 0.0f);
  }
}

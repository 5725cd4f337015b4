// Few channels, row-major [batch, channels, plane], to [batch, plane, 16 bytes of channels] with zeros after the last. A
// thread for each place of the plane; channels are fewer than a vector's elements.
KERNEL run(i64 channels, i64 plane, uint4* to, const UNIT* from) {
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= plane) return;
  union {
    uint4 vector;
    UNIT element[16 / sizeof(UNIT)];
  } all;
  all.vector = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int c = 0; c < (int)(16 / sizeof(UNIT)); ++c) {
    if (c < channels) all.element[c] = from[((i64)blockIdx.y * channels + c) * plane + at];
  }
  to[(i64)blockIdx.y * plane + at] = all.vector;
}

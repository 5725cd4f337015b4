// Convolutions where no library does them, and of bytes: a thread for each result. x and y are [n, channels, plane of up to
// three dimensions] by strides; w is row-major [outputs, inputs of a group, window].
struct Conv {
  i64 size[3], windows[3], kernel[3], step[3], dilation[3], begin[3];
  i64 x_stride[5], y_stride[5];
  i64 samples, inputs, outputs, groups, of_group;  // of_group: inputs of a group
};

DEVICE i64 weight_place(const Conv& p, i64 o, i64 j, i64 k0, i64 k1, i64 k2) {
  return (((o * p.of_group + j) * p.kernel[0] + k0) * p.kernel[1] + k1) * p.kernel[2] + k2;
}

#ifdef FORWARD
KERNEL run(i64 n, OUT* y, const T* x, const W* w, const B* bias, const float* x_scale, const float* w_scale, Conv p) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  i64 rest = i;
  const i64 w2 = rest % p.windows[2];
  rest /= p.windows[2];
  const i64 w1 = rest % p.windows[1];
  rest /= p.windows[1];
  const i64 w0 = rest % p.windows[0];
  rest /= p.windows[0];
  const i64 o = rest % p.outputs, sample = rest / p.outputs;
  const i64 first_input = o / (p.outputs / p.groups) * p.of_group;
  SUM sum = 0;
  for (i64 j = 0; j < p.of_group; ++j) {
    const T* from = x + sample * p.x_stride[0] + (first_input + j) * p.x_stride[1];
    for (i64 k0 = 0; k0 < p.kernel[0]; ++k0) {
      const i64 a0 = w0 * p.step[0] + k0 * p.dilation[0] - p.begin[0];
      if (a0 < 0 || a0 >= p.size[0]) continue;
      for (i64 k1 = 0; k1 < p.kernel[1]; ++k1) {
        const i64 a1 = w1 * p.step[1] + k1 * p.dilation[1] - p.begin[1];
        if (a1 < 0 || a1 >= p.size[1]) continue;
        for (i64 k2 = 0; k2 < p.kernel[2]; ++k2) {
          const i64 a2 = w2 * p.step[2] + k2 * p.dilation[2] - p.begin[2];
          if (a2 < 0 || a2 >= p.size[2]) continue;
          sum += (SUM)wide(from[a0 * p.x_stride[2] + a1 * p.x_stride[3] + a2 * p.x_stride[4]]) * (SUM)wide(w[weight_place(p, o, j, k0, k1, k2)]);
        }
      }
    }
  }
  float v = (float)sum;
  if (x_scale != 0) v *= x_scale[sample] * w_scale[o];
  if (bias != 0) v += (float)wide(bias[o]);
  y[sample * p.y_stride[0] + o * p.y_stride[1] + w0 * p.y_stride[2] + w1 * p.y_stride[3] + w2 * p.y_stride[4]] = narrow<OUT>(v);
}
#endif

#ifdef BACKWARD_DATA
KERNEL run(i64 n, T* dx, const T* dy, const T* w, const T* bias, Conv p) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  i64 rest = i;
  const i64 a2 = rest % p.size[2];
  rest /= p.size[2];
  const i64 a1 = rest % p.size[1];
  rest /= p.size[1];
  const i64 a0 = rest % p.size[0];
  rest /= p.size[0];
  const i64 c = rest % p.inputs, sample = rest / p.inputs;
  const i64 group = c / p.of_group, j = c % p.of_group, outputs = p.outputs / p.groups;
  float sum = 0;
  for (i64 k0 = 0; k0 < p.kernel[0]; ++k0) {
    const i64 f0 = a0 + p.begin[0] - k0 * p.dilation[0];
    if (f0 < 0 || f0 % p.step[0] != 0 || f0 / p.step[0] >= p.windows[0]) continue;
    for (i64 k1 = 0; k1 < p.kernel[1]; ++k1) {
      const i64 f1 = a1 + p.begin[1] - k1 * p.dilation[1];
      if (f1 < 0 || f1 % p.step[1] != 0 || f1 / p.step[1] >= p.windows[1]) continue;
      for (i64 k2 = 0; k2 < p.kernel[2]; ++k2) {
        const i64 f2 = a2 + p.begin[2] - k2 * p.dilation[2];
        if (f2 < 0 || f2 % p.step[2] != 0 || f2 / p.step[2] >= p.windows[2]) continue;
        const T* from = dy + sample * p.y_stride[0] + f0 / p.step[0] * p.y_stride[2] + f1 / p.step[1] * p.y_stride[3] + f2 / p.step[2] * p.y_stride[4];
        for (i64 o = group * outputs; o < (group + 1) * outputs; ++o) {
          sum += wide(from[o * p.y_stride[1]]) * wide(w[weight_place(p, o, j, k0, k1, k2)]);
        }
      }
    }
  }
  if (bias != 0) sum += wide(bias[c]);
  dx[sample * p.x_stride[0] + c * p.x_stride[1] + a0 * p.x_stride[2] + a1 * p.x_stride[3] + a2 * p.x_stride[4]] = narrow<T>(sum);
}
#endif

// A block of 128 for each weight.
#ifdef BACKWARD_WEIGHTS
KERNEL run(T* dw, const T* dy, const T* x, Conv p) {
  __shared__ float shared[32];
  i64 rest = blockIdx.x;
  const i64 k2 = rest % p.kernel[2];
  rest /= p.kernel[2];
  const i64 k1 = rest % p.kernel[1];
  rest /= p.kernel[1];
  const i64 k0 = rest % p.kernel[0];
  rest /= p.kernel[0];
  const i64 j = rest % p.of_group, o = rest / p.of_group;
  const i64 c = o / (p.outputs / p.groups) * p.of_group + j;
  float sum = 0;
  const i64 plane = p.windows[0] * p.windows[1] * p.windows[2];
  for (i64 i = threadIdx.x; i < p.samples * plane; i += blockDim.x) {
    i64 at = i;
    const i64 w2 = at % p.windows[2];
    at /= p.windows[2];
    const i64 w1 = at % p.windows[1];
    at /= p.windows[1];
    const i64 w0 = at % p.windows[0];
    const i64 sample = at / p.windows[0];
    const i64 a0 = w0 * p.step[0] + k0 * p.dilation[0] - p.begin[0];
    const i64 a1 = w1 * p.step[1] + k1 * p.dilation[1] - p.begin[1];
    const i64 a2 = w2 * p.step[2] + k2 * p.dilation[2] - p.begin[2];
    if (a0 < 0 || a0 >= p.size[0] || a1 < 0 || a1 >= p.size[1] || a2 < 0 || a2 >= p.size[2]) continue;
    sum += wide(dy[sample * p.y_stride[0] + o * p.y_stride[1] + w0 * p.y_stride[2] + w1 * p.y_stride[3] + w2 * p.y_stride[4]]) *
           wide(x[sample * p.x_stride[0] + c * p.x_stride[1] + a0 * p.x_stride[2] + a1 * p.x_stride[3] + a2 * p.x_stride[4]]);
  }
  sum = over_block<Add>(sum, shared, 0.0f);
  if (threadIdx.x == 0) dw[blockIdx.x] = narrow<T>(sum);
}
#endif

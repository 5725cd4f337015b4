// Windows over planes of up to three dimensions; I is i32 where that can count all elements, else i64. Element (n, c, d, h, w) of x lies at the sum of its strides; y likewise.
struct Plane {
  I size[3];      // of x
  I windows[3];   // of y
  I x_stride[5];  // n, c, then the plane
  I y_stride[5];
  I kernel[3], step[3], dilation[3], begin[3], end[3];
  I channels;
};

// PLANE: all of it as constants, for large pools.
#ifdef PLANE
__device__ constexpr Plane kPlane = PLANE;
#define USED_PLANE kPlane
#else
#define USED_PLANE given
#endif

struct Spot {
  I n, c, at[3];
};

// In the order of memory: channels last or not, as y (or x) lies.
DEVICE Spot spot_of(I i, const I* sizes, I channels, bool last) {
  Spot spot;
  if (last) {
    spot.c = i % channels;
    i /= channels;
  }
  for (int d = 2; d >= 0; --d) {
    spot.at[d] = i % sizes[d];
    i /= sizes[d];
  }
  if (!last) {
    spot.c = i % channels;
    i /= channels;
  }
  spot.n = i;
  return spot;
}

DEVICE I place_of(const Spot& spot, const I* stride) {
  return spot.n * stride[0] + spot.c * stride[1] + spot.at[0] * stride[2] + spot.at[1] * stride[3] + spot.at[2] * stride[4];
}

// Along one dimension window i sees elements lows .. highs (by k of the kernel, or of x where ADAPTIVE).
DEVICE I first_of(const Plane& p, int d, I i) {
#ifdef ADAPTIVE
  return i * p.size[d] / p.windows[d];
#else
  return i * p.step[d] - p.begin[d];
#endif
}
DEVICE I count_of(const Plane& p, int d, I i) {
#ifdef ADAPTIVE
  return ((i + 1) * p.size[d] + p.windows[d] - 1) / p.windows[d] - i * p.size[d] / p.windows[d];
#else
  return p.kernel[d];
#endif
}
DEVICE I dilation_of(const Plane& p, int d) {
#ifdef ADAPTIVE
  return 1;
#else
  return p.dilation[d];
#endif
}

// How many elements the average of window `spot` is of.
DEVICE float divisor_of(const Plane& p, const Spot& spot) {
  I count = 1;
  for (int d = 0; d < 3; ++d) {
#ifdef ADAPTIVE
    count *= count_of(p, d, spot.at[d]);
    continue;
#endif
    I seen = 0;
    const I first = first_of(p, d, spot.at[d]);
    for (I k = 0; k < count_of(p, d, spot.at[d]); ++k) {
      const I at = first + k * dilation_of(p, d);
#ifdef INCLUDE_PAD
      seen += at < p.size[d] + p.end[d];
#else
      seen += at >= 0 && at < p.size[d];
#endif
    }
    count *= seen;
  }
  return (float)count;
}

#ifdef FORWARD
KERNEL run(i64 n, T* y, INDEX* index, const T* x, Plane given, i32 given_last) {
  const i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= n) return;
  const I i = (I)thread;
  const Plane& p = USED_PLANE;
#ifdef LAST
  const bool last = LAST;
#else
  const bool last = given_last != 0;
#endif
  const Spot spot = spot_of(i, p.windows, p.channels, last);
  const T* from = x + spot.n * p.x_stride[0] + spot.c * p.x_stride[1];
  const I f0 = first_of(p, 0, spot.at[0]), f1 = first_of(p, 1, spot.at[1]), f2 = first_of(p, 2, spot.at[2]);
  const I n0 = count_of(p, 0, spot.at[0]), n1 = count_of(p, 1, spot.at[1]), n2 = count_of(p, 2, spot.at[2]);
  float best = -INFINITE, sum = 0;
  I at = -1;
  for (I k0 = 0; k0 < n0; ++k0) {
    const I a0 = f0 + k0 * dilation_of(p, 0);
    if (a0 < 0 || a0 >= p.size[0]) continue;
    for (I k1 = 0; k1 < n1; ++k1) {
      const I a1 = f1 + k1 * dilation_of(p, 1);
      if (a1 < 0 || a1 >= p.size[1]) continue;
      for (I k2 = 0; k2 < n2; ++k2) {
        const I a2 = f2 + k2 * dilation_of(p, 2);
        if (a2 < 0 || a2 >= p.size[2]) continue;
        const float v = wide(from[a0 * p.x_stride[2] + a1 * p.x_stride[3] + a2 * p.x_stride[4]]);
        sum += v;
        if (at < 0 || v > best || v != v) {
          best = v;
#ifdef ADAPTIVE
          at = (a0 * p.size[1] + a1) * p.size[2] + a2;
#else
          at = (k0 * n1 + k1) * n2 + k2;
#endif
        }
      }
    }
  }
  const I to = place_of(spot, p.y_stride);
#ifdef AVERAGE
  y[to] = narrow<T>(sum / divisor_of(p, spot));
#else
  if (y != 0) y[to] = narrow<T>(best);
  if (index != 0) index[to] = (INDEX)(at < 0 ? 0 : at);
#endif
}
#endif

#ifdef BACKWARD
// Along one dimension the windows that may see element a: lowest .. highest.
DEVICE I lowest_of(const Plane& p, int d, I a) {
#ifdef ADAPTIVE
  const I low = a * p.windows[d] / p.size[d] - 1;
  return low < 0 ? 0 : low;
#else
  const I reach = a + p.begin[d] - p.dilation[d] * (p.kernel[d] - 1);
  return reach <= 0 ? 0 : (reach + p.step[d] - 1) / p.step[d];
#endif
}
DEVICE I highest_of(const Plane& p, int d, I a) {
#ifdef ADAPTIVE
  const I high = ((a + 1) * p.windows[d] + p.size[d] - 1) / p.size[d];
#else
  const I high = (a + p.begin[d]) / p.step[d];
#endif
  return high < p.windows[d] - 1 ? high : p.windows[d] - 1;
}
// Which element of window i element a is; -1 where it is not in it.
DEVICE I inside(const Plane& p, int d, I i, I a) {
  const I from = a - first_of(p, d, i);
  if (from < 0 || from % dilation_of(p, d) != 0 || from / dilation_of(p, d) >= count_of(p, d, i)) return -1;
  return from / dilation_of(p, d);
}

// EACH: elements of a thread, 1, or 8 channels side by side.
#if EACH == 8
#define READ_DY(from, to) load8(dy + (from), to)
#define READ_INDEX(from, to) load8(index + (from), to)
#define WRITE_DX(to, from) store8(dx + (to), from)
#else
#define READ_DY(from, to) (to)[0] = wide(dy[from])
#define READ_INDEX(from, to) (to)[0] = index[from]
#define WRITE_DX(to, from) dx[to] = narrow<T>((from)[0])
#endif

KERNEL run(i64 n, T* dx, const T* dy, const INDEX* index, Plane given, i32 given_last) {
  const i64 thread = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * EACH;
  if (thread >= n) return;
  const I i = (I)thread;
  const Plane& p = USED_PLANE;
#ifdef LAST
  const bool last = LAST;
#else
  const bool last = given_last != 0;
#endif
  const Spot spot = spot_of(i, p.size, p.channels, last);
  float sum[EACH] = {};
  Spot window = spot;
  for (window.at[0] = lowest_of(p, 0, spot.at[0]); window.at[0] <= highest_of(p, 0, spot.at[0]); ++window.at[0]) {
    const I k0 = inside(p, 0, window.at[0], spot.at[0]);
    if (k0 < 0) continue;
    for (window.at[1] = lowest_of(p, 1, spot.at[1]); window.at[1] <= highest_of(p, 1, spot.at[1]); ++window.at[1]) {
      const I k1 = inside(p, 1, window.at[1], spot.at[1]);
      if (k1 < 0) continue;
      for (window.at[2] = lowest_of(p, 2, spot.at[2]); window.at[2] <= highest_of(p, 2, spot.at[2]); ++window.at[2]) {
        const I k2 = inside(p, 2, window.at[2], spot.at[2]);
        if (k2 < 0) continue;
        const I from = place_of(window, p.y_stride);
        float d[EACH];
        READ_DY(from, d);
#ifdef AVERAGE
        const float divisor = divisor_of(p, window);
#pragma unroll
        for (int k = 0; k < EACH; ++k) sum[k] += d[k] / divisor;
#else
#ifdef ADAPTIVE
        const I mine = (spot.at[0] * p.size[1] + spot.at[1]) * p.size[2] + spot.at[2];
#else
        const I mine = (k0 * p.kernel[1] + k1) * p.kernel[2] + k2;
#endif
        i64 found[EACH];
        READ_INDEX(from, found);
#pragma unroll
        for (int k = 0; k < EACH; ++k) sum[k] += found[k] == mine ? d[k] : 0.0f;
#endif
      }
    }
  }
  WRITE_DX(place_of(spot, p.x_stride), sum);
}
#endif

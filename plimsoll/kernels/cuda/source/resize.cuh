// Resizing of planes. A dimension of y with `to` elements is made of one with `from`.
struct Source {
  i64 first, second;
  double part;
};

DEVICE Source source_of(i64 i, i64 from, i64 to, i32 nearest, i32 align_corners, double scale) {
  Source s;
  if (nearest) {
    const i64 at = scale > 0 ? (i64)floor((double)i / scale) : i * from / to;
    s.first = at < from - 1 ? at : from - 1;
    s.second = s.first;
    s.part = 0;
    return s;
  }
  double at;
  if (align_corners) {
    at = to > 1 ? (double)i * (double)(from - 1) / (double)(to - 1) : 0;
  } else {
    at = fmax(((double)i + 0.5) * (scale > 0 ? 1 / scale : (double)from / (double)to) - 0.5, 0.0);
  }
  s.first = (i64)at < from - 1 ? (i64)at : from - 1;
  s.second = s.first + 1 < from - 1 ? s.first + 1 : from - 1;
  s.part = at - (double)s.first;
  return s;
}

struct Sizes {
  i64 from[3], to[3];
};

#ifdef FORWARD
KERNEL run(i64 n, T* y, const T* x, Sizes z, i32 nearest, i32 align_corners, double scale) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Source s[3];
  i64 rest = i;
  for (int d = 2; d >= 0; --d) {
    s[d] = z.from[d] == 1 && z.to[d] == 1 ? Source{0, 0, 0} : source_of(rest % z.to[d], z.from[d], z.to[d], nearest, align_corners, scale);
    rest /= z.to[d];
  }
  const T* plane = x + rest * z.from[0] * z.from[1] * z.from[2];
  float sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const bool b0 = corner & 1, b1 = corner & 2, b2 = corner & 4;
    const double weight = (b0 ? s[0].part : 1 - s[0].part) * (b1 ? s[1].part : 1 - s[1].part) * (b2 ? s[2].part : 1 - s[2].part);
    if (weight == 0) continue;
    const i64 at = ((b0 ? s[0].second : s[0].first) * z.from[1] + (b1 ? s[1].second : s[1].first)) * z.from[2] + (b2 ? s[2].second : s[2].first);
    sum += wide(plane[at]) * (float)weight;
  }
  y[i] = narrow<T>(sum);
}
#endif

#ifdef BACKWARD
// One dimension: dy [outer, to, inner] to dx [outer, from, inner].
KERNEL run(i64 n, i64 from, i64 to, i64 inner, OUT* dx, const T* dy, i32 nearest, i32 align_corners, double scale) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const i64 at = i / inner % from;
  const T* line = dy + i / inner / from * to * inner + i % inner;
  i64 low = 0, high = to;  // the first that reaches `at`
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (source_of(middle, from, to, nearest, align_corners, scale).second >= at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  float sum = 0;
  for (i64 k = low; k < to; ++k) {
    const Source s = source_of(k, from, to, nearest, align_corners, scale);
    if (s.first > at) break;
    double weight = 0;
    if (s.first == at) weight += 1 - s.part;
    if (s.second == at) weight += s.part;
    sum += wide(line[k * inner]) * (float)weight;
  }
  dx[i] = narrow<OUT>(sum);
}
#endif

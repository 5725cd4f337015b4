// Attention of any shape, a warp for each line; attention_mma.cuh has the fast one. Operands lie by strides [batch, head, line,
// element]; y, dy, lse and gradients are row-major.
//   T; BOOL_MASK or ADD_MASK (of type M) with its strides [batch, head, query, key]; DROPS
struct Heads {
  i64 batch, heads, queries, keys, dim, width;
  i64 q[4], k[4], v[4], mask[4];
  i32 causal;
  float scale;
};
struct Drop {
  const i64* seed;
  u64 stream;
  i64 offset;
  u64 threshold;
  float scale;
};

DEVICE float dot(const T* a, i64 a_stride, const T* b, i64 b_stride, i64 n) {
  float sum = 0;
  for (i64 d = threadIdx.x & 31; d < n; d += 32) sum += wide(a[d * a_stride]) * wide(b[d * b_stride]);
  return over_warp<Add>(sum);
}

DEVICE float with_mask(const Heads& h, const M* mask, i64 batch, i64 head, i64 i, i64 j, float score) {
  if (h.causal && j > i) return -INFINITE;
#ifdef BOOL_MASK
  return wide(mask[batch * h.mask[0] + head * h.mask[1] + i * h.mask[2] + j * h.mask[3]]) != 0 ? score : -INFINITE;
#elif defined(ADD_MASK)
  return score + wide(mask[batch * h.mask[0] + head * h.mask[1] + i * h.mask[2] + j * h.mask[3]]);
#else
  return score;
#endif
}

DEVICE float kept(const Heads& h, const Drop& drop, i64 line, i64 j) {
#ifdef DROPS
  const u64 index = (u64)(drop.offset + line * h.keys + j);
  return (u64)random_bits((u64)drop.seed[0], drop.stream, index) >= drop.threshold ? drop.scale : 0.0f;
#else
  return 1.0f;
#endif
}

// Up to 8 elements of a line of 256 in each lane; longer ones go round again.
#define LANES 8

KERNEL forward(Heads h, T* y, float* lse, const T* q, const T* k, const T* v, const M* mask, Drop drop) {
  const i64 line = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (line >= h.batch * h.heads * h.queries) return;
  const int lane = threadIdx.x & 31;
  const i64 i = line % h.queries, head = line / h.queries % h.heads, batch = line / h.queries / h.heads;
  const T* query = q + batch * h.q[0] + head * h.q[1] + i * h.q[2];
  const T* keys = k + batch * h.k[0] + head * h.k[1];
  const T* values = v + batch * h.v[0] + head * h.v[1];
  for (i64 base = 0; base < h.width; base += 32 * LANES) {
    float largest = -INFINITE, sum = 0;
    float out[LANES] = {};
    for (i64 j = 0; j < h.keys; ++j) {
      if (h.causal && j > i) break;
      const float score = with_mask(h, mask, batch, head, i, j, h.scale * dot(query, h.q[3], keys + j * h.k[2], h.k[3], h.dim));
      if (score == -INFINITE) continue;
      const float top = fmaxf(largest, score);
      const float shrink = largest == -INFINITE ? 0 : expf(largest - top);
      const float weight = expf(score - top);
      const float shown = weight * kept(h, drop, line, j);
      sum = sum * shrink + weight;
      largest = top;
#pragma unroll
      for (int e = 0; e < LANES; ++e) {
        const i64 d = base + lane + 32 * e;
        if (d < h.width) out[e] = out[e] * shrink + shown * wide(values[j * h.v[2] + d * h.v[3]]);
      }
    }
    const float inverse = sum > 0 ? 1 / sum : 0;
#pragma unroll
    for (int e = 0; e < LANES; ++e) {
      const i64 d = base + lane + 32 * e;
      if (d < h.width && y != 0) y[line * h.width + d] = narrow<T>(out[e] * inverse);
    }
    if (base == 0 && lane == 0 && lse != 0) lse[line] = sum > 0 ? largest + logf(sum) : -INFINITE;
  }
}

// sum(dy * y) of each line.
KERNEL inner(Heads h, float* delta, const T* dy, const T* y) {
  const i64 line = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (line >= h.batch * h.heads * h.queries) return;
  const float sum = dot(dy + line * h.width, 1, y + line * h.width, 1, h.width);
  if ((threadIdx.x & 31) == 0) delta[line] = sum;
}

DEVICE float weight_of(const Heads& h, const T* q, const T* k, const M* mask, const float* lse, i64 batch, i64 head, i64 i, i64 j) {
  const T* query = q + batch * h.q[0] + head * h.q[1] + i * h.q[2];
  const T* key = k + batch * h.k[0] + head * h.k[1] + j * h.k[2];
  const float base = lse[(batch * h.heads + head) * h.queries + i];
  if (base == -INFINITE) return 0;
  return expf(with_mask(h, mask, batch, head, i, j, h.scale * dot(query, h.q[3], key, h.k[3], h.dim)) - base);
}

KERNEL backward_queries(Heads h, T* dq, const T* dy, const T* q, const T* k, const T* v, const float* lse, const float* delta,
                        const M* mask, Drop drop) {
  const i64 line = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (line >= h.batch * h.heads * h.queries) return;
  const int lane = threadIdx.x & 31;
  const i64 i = line % h.queries, head = line / h.queries % h.heads, batch = line / h.queries / h.heads;
  const T* keys = k + batch * h.k[0] + head * h.k[1];
  const T* values = v + batch * h.v[0] + head * h.v[1];
  for (i64 base = 0; base < h.dim; base += 32 * LANES) {
    float out[LANES] = {};
    for (i64 j = 0; j < h.keys; ++j) {
      if (h.causal && j > i) break;
      const float weight = weight_of(h, q, k, mask, lse, batch, head, i, j);
      if (weight == 0) continue;
      const float dweight = kept(h, drop, line, j) * dot(dy + line * h.width, 1, values + j * h.v[2], h.v[3], h.width);
      const float dscore = weight * (dweight - delta[line]) * h.scale;
#pragma unroll
      for (int e = 0; e < LANES; ++e) {
        const i64 d = base + lane + 32 * e;
        if (d < h.dim) out[e] += dscore * wide(keys[j * h.k[2] + d * h.k[3]]);
      }
    }
#pragma unroll
    for (int e = 0; e < LANES; ++e) {
      const i64 d = base + lane + 32 * e;
      if (d < h.dim) dq[line * h.dim + d] = narrow<T>(out[e]);
    }
  }
}

// dk and dv of one key; either may be null.
KERNEL backward_keys(Heads h, T* dk, T* dv, const T* dy, const T* q, const T* k, const T* v, const float* lse, const float* delta,
                     const M* mask, Drop drop) {
  const i64 line = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (line >= h.batch * h.heads * h.keys) return;
  const int lane = threadIdx.x & 31;
  const i64 j = line % h.keys, head = line / h.keys % h.heads, batch = line / h.keys / h.heads;
  const T* queries = q + batch * h.q[0] + head * h.q[1];
  const T* value = v + batch * h.v[0] + head * h.v[1] + j * h.v[2];
  const i64 longest = h.dim > h.width ? h.dim : h.width;
  for (i64 base = 0; base < longest; base += 32 * LANES) {
    float of_key[LANES] = {}, of_value[LANES] = {};
    for (i64 i = h.causal ? j : 0; i < h.queries; ++i) {
      const i64 row = (batch * h.heads + head) * h.queries + i;
      const float weight = weight_of(h, q, k, mask, lse, batch, head, i, j);
      if (weight == 0) continue;
      const float keeps = kept(h, drop, row, j);
      const float dweight = keeps * dot(dy + row * h.width, 1, value, h.v[3], h.width);
      const float dscore = weight * (dweight - delta[row]) * h.scale;
#pragma unroll
      for (int e = 0; e < LANES; ++e) {
        const i64 d = base + lane + 32 * e;
        if (d < h.dim) of_key[e] += dscore * wide(queries[i * h.q[2] + d * h.q[3]]);
        if (d < h.width) of_value[e] += weight * keeps * wide(dy[row * h.width + d]);
      }
    }
#pragma unroll
    for (int e = 0; e < LANES; ++e) {
      const i64 d = base + lane + 32 * e;
      if (dk != 0 && d < h.dim) dk[line * h.dim + d] = narrow<T>(of_key[e]);
      if (dv != 0 && d < h.width) dv[line * h.width + d] = narrow<T>(of_value[e]);
    }
  }
}

// dmask, a warp for each of its elements: `shown` walks the scores that one element of the mask stands for, by their place in
// [batch, heads, queries, keys].
#ifdef ADD_MASK
KERNEL backward_mask(Heads h, i64 n, i64 of_each, M* dmask, const T* dy, const T* q, const T* k, const T* v, const float* lse,
                     const float* delta, const M* mask, Drop drop, Walk kept_dims, Walk shown) {
  const i64 at = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (at >= n) return;
  float sum = 0;
  for (i64 s = 0; s < of_each; ++s) {
    const i64 score = place(kept_dims, at) + place(shown, s);
    const i64 j = score % h.keys, row = score / h.keys;
    const i64 i = row % h.queries, head = row / h.queries % h.heads, batch = row / h.queries / h.heads;
    const float weight = weight_of(h, q, k, mask, lse, batch, head, i, j);
    if (weight == 0) continue;
    const T* value = v + batch * h.v[0] + head * h.v[1] + j * h.v[2];
    const float dweight = kept(h, drop, row, j) * dot(dy + row * h.width, 1, value, h.v[3], h.width);
    sum += weight * (dweight - delta[row]);
  }
  if ((threadIdx.x & 31) == 0) dmask[at] = narrow<M>(sum);
}
#endif

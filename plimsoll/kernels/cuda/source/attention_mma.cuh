// Attention by tensor cores: T is bf16 or f16, D (16 .. 128, a multiple of 16) elements in a line of q, k and v, no mask, no
// dropout. Tiles of 64 lines pass through shared memory; scores never leave registers. Backward takes two kernels, one by
// keys and one by queries, so that every sum has one owner and one order.
//   ROWS: 16-line pieces of a warp in `forward`. Lines of q, k, v are D elements without gaps, on 16-byte boundaries.
#define LINES (64 * ROWS)  // queries of a block

#ifdef FORWARD
KERNEL __launch_bounds__(128, FORWARD_BLOCKS) forward(Heads h, T* y, float* lse, const T* q, const T* k, const T* v) {
  extern __shared__ uint4 memory[];
  T* const tiles = tiles_in(memory);  // k, v, k, v
  const i64 both = blockIdx.y;
  const i64 batch = both / h.heads, head = both % h.heads;
  const i64 block = (i64)gridDim.x - 1 - blockIdx.x;  // the longest first, where they differ
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const i64 line = block * LINES + warp * 16 * ROWS;
  const T* const queries = q + batch * h.q[0] + head * h.q[1];
  const T* const keys = k + batch * h.k[0] + head * h.k[1];
  const T* const values = v + batch * h.v[0] + head * h.v[1];
  i64 last = h.keys;
  if (h.causal && (block + 1) * LINES < last) last = (block + 1) * LINES;
  const i64 count = (last + TILE - 1) / TILE;
  fetch(tiles, keys, h.k[2], 0, h.keys);
  fetch(tiles + TILE * PITCH, values, h.v[2], 0, h.keys);
  commit();
  u32 a[ROWS][STEPS][4];
  float out[ROWS][D / 8][4];
  float largest[ROWS][2], sum[ROWS][2];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    first_operand(queries, h.q[2], line + 16 * r, h.queries, a[r]);
    largest[r][0] = largest[r][1] = -INFINITE;
    sum[r][0] = sum[r][1] = 0;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[r][n][e] = 0;
    }
  }
  const float factor = h.scale * LOG2E;
  for (i64 t = 0; t < count; ++t) {
    const T* const tile_k = tiles + (t & 1) * 2 * TILE * PITCH;
    const T* const tile_v = tile_k + TILE * PITCH;
    if (t + 1 < count) {
      T* const next = tiles + ((t + 1) & 1) * 2 * TILE * PITCH;
      fetch(next, keys, h.k[2], (t + 1) * TILE, h.keys);
      fetch(next + TILE * PITCH, values, h.v[2], (t + 1) * TILE, h.keys);
      commit();
      arrived<1>();
    } else {
      arrived<0>();
    }
    __syncthreads();
    const bool cuts = (t + 1) * TILE > h.keys || (h.causal && (t + 1) * TILE - 1 > line);
    float scores[ROWS][TILE / 8][4] = {};
    scores_of<ROWS>(scores, a, tile_k);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      float (*s)[4] = scores[r];
      const i64 row = line + 16 * r + (lane >> 2);
      if (cuts) {
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const i64 j = t * TILE + n * 8 + (lane & 3) * 2 + (e & 1);
            if (j >= h.keys || (h.causal && j > row + (e >> 1) * 8)) s[n][e] = -INFINITE;
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = -INFINITE;
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        top = fmaxf(over_four(top, true) * factor, largest[r][half]);
        const float base = top == -INFINITE ? 0 : top;
        const float shrink = power_of_two(largest[r][half] - base);
        float added = 0;
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            s[n][e] = power_of_two(s[n][e] * factor - base);
            added += s[n][e];
          }
        }
        largest[r][half] = top;
        sum[r][half] = sum[r][half] * shrink + added;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
          out[r][n][2 * half] *= shrink;
          out[r][n][2 * half + 1] *= shrink;
        }
      }
    }
    add_weighted<ROWS>(out, scores, tile_v);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const i64 row = line + 16 * r;
    const float total0 = over_four(sum[r][0], false), total1 = over_four(sum[r][1], false);
    if (y != 0) store_lines(y + both * h.queries * D, row, h.queries, out[r], total0 > 0 ? 1 / total0 : 0, total1 > 0 ? 1 / total1 : 0);
    if (lse == 0 || (lane & 3) != 0) continue;
    const i64 at = row + (lane >> 2);
    if (at < h.queries) lse[both * h.queries + at] = largest[r][0] * LN2 + logf(total0);
    if (at + 8 < h.queries) lse[both * h.queries + at + 8] = largest[r][1] * LN2 + logf(total1);
  }
}
#endif

#ifdef BACKWARD
// sum(dy * y) of each line, a warp for each.
KERNEL inner(Heads h, float* delta, const T* dy, const T* y) {
  const i64 line = (i64)blockIdx.x * 4 + threadIdx.x / 32;
  if (line >= h.batch * h.heads * h.queries) return;
  float sum = 0;
  for (int d = (threadIdx.x & 31) * 2; d < D; d += 64) {
    const i64 at = line * D + d;
    sum += wide(dy[at]) * wide(y[at]) + wide(dy[at + 1]) * wide(y[at + 1]);
  }
  sum = over_warp<Add>(sum);
  if ((threadIdx.x & 31) == 0) delta[line] = sum;
}

// dk and dv of 64 keys, 16 for each warp; goes over the queries.
KERNEL __launch_bounds__(128, BACKWARD_BLOCKS) by_keys(Heads h, T* dk, T* dv, const T* dy, const T* q, const T* k, const T* v, const float* lse,
                                      const float* delta) {
  extern __shared__ uint4 memory[];
  T* const tiles = tiles_in(memory);  // q, dy, q, dy
  float* const numbers = (float*)(tiles + 4 * TILE * PITCH);  // lse and delta of each query, twice
  const i64 both = blockIdx.y;
  const i64 batch = both / h.heads, head = both % h.heads;
  const i64 first = (i64)blockIdx.x * TILE;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const i64 line = first + warp * 16;
  const T* const queries = q + batch * h.q[0] + head * h.q[1];
  const T* const slopes = dy + both * h.queries * D;
  const float* const bases = lse + both * h.queries;
  const float* const deltas = delta + both * h.queries;
  u32 key[1][STEPS][4], value[1][STEPS][4];
  first_operand(k + batch * h.k[0] + head * h.k[1], h.k[2], line, h.keys, key[0]);
  first_operand(v + batch * h.v[0] + head * h.v[1], h.v[2], line, h.keys, value[0]);
  float of_key[1][D / 8][4] = {}, of_value[1][D / 8][4] = {};
  const float factor = h.scale * LOG2E;
  const i64 begin = h.causal ? first / TILE : 0;
  const i64 count = (h.queries + TILE - 1) / TILE;
  const auto start = [&](i64 t) {
    T* const at = tiles + (t & 1) * 2 * TILE * PITCH;
    fetch(at, queries, h.q[2], t * TILE, h.queries);
    fetch(at + TILE * PITCH, slopes, D, t * TILE, h.queries);
    commit();
    const i64 i = t * TILE + (threadIdx.x & 63);
    const float* from = threadIdx.x < 64 ? bases : deltas;
    numbers[(t & 1) * 2 * TILE + threadIdx.x] = i < h.queries ? from[i] : 0;
  };
  if (begin < count) start(begin);
  for (i64 t = begin; t < count; ++t) {
    if (t + 1 < count) {
      start(t + 1);
      arrived<1>();
    } else {
      arrived<0>();
    }
    __syncthreads();
    const T* const tile_q = tiles + (t & 1) * 2 * TILE * PITCH;
    const T* const tile_dy = tile_q + TILE * PITCH;
    const float* const base = numbers + (t & 1) * 2 * TILE;
    float p[1][TILE / 8][4] = {};
    scores_of<1>(p, key, tile_q);
    const bool cuts = (t + 1) * TILE > h.queries || (h.causal && t * TILE < line + 16);
#pragma unroll
    for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = n * 8 + (lane & 3) * 2 + (e & 1);
        const i64 i = t * TILE + column, j = line + (lane >> 2) + (e >> 1) * 8;
        p[0][n][e] = power_of_two(p[0][n][e] * factor - base[column] * LOG2E);
        if (cuts && (i >= h.queries || (h.causal && j > i))) p[0][n][e] = 0;
      }
    }
    add_weighted<1>(of_value, p, tile_dy);
    float slope[1][TILE / 8][4] = {};
    scores_of<1>(slope, value, tile_dy);
#pragma unroll
    for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = n * 8 + (lane & 3) * 2 + (e & 1);
        slope[0][n][e] = p[0][n][e] * (slope[0][n][e] - base[TILE + column]);
      }
    }
    add_weighted<1>(of_key, slope, tile_q);
    __syncthreads();
  }
  if (dk != 0) store_lines(dk + both * h.keys * D, line, h.keys, of_key[0], h.scale, h.scale);
  if (dv != 0) store_lines(dv + both * h.keys * D, line, h.keys, of_value[0], 1, 1);
}

// dq of 64 queries, 16 for each warp; goes over the keys.
KERNEL __launch_bounds__(128, BACKWARD_BLOCKS) by_queries(Heads h, T* dq, const T* dy, const T* q, const T* k, const T* v, const float* lse,
                                         const float* delta) {
  extern __shared__ uint4 memory[];
  T* const tiles = tiles_in(memory);  // k, v, k, v
  const i64 both = blockIdx.y;
  const i64 batch = both / h.heads, head = both % h.heads;
  const i64 block = (i64)gridDim.x - 1 - blockIdx.x;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const i64 line = block * TILE + warp * 16;
  const T* const keys = k + batch * h.k[0] + head * h.k[1];
  const T* const values = v + batch * h.v[0] + head * h.v[1];
  u32 query[1][STEPS][4], slopes[1][STEPS][4];
  first_operand(q + batch * h.q[0] + head * h.q[1], h.q[2], line, h.queries, query[0]);
  first_operand(dy + both * h.queries * D, D, line, h.queries, slopes[0]);
  float base[2], through[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 row = line + (lane >> 2) + half * 8;
    base[half] = row < h.queries ? lse[both * h.queries + row] * LOG2E : 0;
    through[half] = row < h.queries ? delta[both * h.queries + row] : 0;
  }
  float out[1][D / 8][4] = {};
  const float factor = h.scale * LOG2E;
  i64 last = h.keys;
  if (h.causal && (block + 1) * TILE < last) last = (block + 1) * TILE;
  const i64 count = (last + TILE - 1) / TILE;
  const auto start = [&](i64 t) {
    T* const at = tiles + (t & 1) * 2 * TILE * PITCH;
    fetch(at, keys, h.k[2], t * TILE, h.keys);
    fetch(at + TILE * PITCH, values, h.v[2], t * TILE, h.keys);
    commit();
  };
  start(0);
  for (i64 t = 0; t < count; ++t) {
    if (t + 1 < count) {
      start(t + 1);
      arrived<1>();
    } else {
      arrived<0>();
    }
    __syncthreads();
    const T* const tile_k = tiles + (t & 1) * 2 * TILE * PITCH;
    const T* const tile_v = tile_k + TILE * PITCH;
    float p[1][TILE / 8][4] = {};
    scores_of<1>(p, query, tile_k);
    float slope[1][TILE / 8][4] = {};
    scores_of<1>(slope, slopes, tile_v);
    const bool cuts = (t + 1) * TILE > h.keys || (h.causal && (t + 1) * TILE - 1 > line);
#pragma unroll
    for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const i64 j = t * TILE + n * 8 + (lane & 3) * 2 + (e & 1), i = line + (lane >> 2) + (e >> 1) * 8;
        float weight = power_of_two(p[0][n][e] * factor - base[e >> 1]);
        if (cuts && (j >= h.keys || (h.causal && j > i))) weight = 0;
        slope[0][n][e] = weight * (slope[0][n][e] - through[e >> 1]);
      }
    }
    add_weighted<1>(out, slope, tile_k);
    __syncthreads();
  }
  store_lines(dq + both * h.queries * D, line, h.queries, out[0], h.scale, h.scale);
}
#endif

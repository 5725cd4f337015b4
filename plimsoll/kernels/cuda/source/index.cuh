// Rows by their index. x is [outer, size, inner], the index has `count` elements of type INDEX.
DEVICE i64 resolved(i64 given, i64 size, i32 from_end, i64 at, const Fault& fault) {
  if (given >= (from_end ? -size : 0) && given < size) return given < 0 ? given + size : given;
  report(fault, given, at, from_end ? -size : 0, size - 1);
  return 0;
}

#ifdef GATHER
KERNEL run(i64 outer, i64 size, i64 inner, i64 count, OUT* y, const T* x, const INDEX* index, const float* scales, i32 from_end, Fault fault) {
  const i64 n = outer * count * inner;
  for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < n; at += (i64)gridDim.x * blockDim.x) {
    const i64 row = at / inner;
    const i64 from = resolved(index[row % count], size, from_end, row % count, fault);
    const T found = x[(row / count * size + from) * inner + at % inner];
#ifdef SCALED
    y[at] = narrow<OUT>((float)wide(found) * scales[from]);
#else
    y[at] = found;
#endif
  }
}
#endif

#ifdef GATHER_BACKWARD
// How often each row is named and where first; both arrays [size], `seen` 0 and `first` all ones before.
KERNEL tally(i64 size, i64 count, const INDEX* index, u32* seen, u32* first, i64 padding, Fault fault) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const i64 row = resolved(index[i], size, 1, i, fault);
  if (row == padding) return;
  atomicAdd(seen + row, 1u);
  atomicMin(first + row, (u32)i);
}

// Where the places that name a row begin in a list, for rows that are named more than once; which rows come first there
// says nothing. `taken` is 0 before.
KERNEL reserve(i64 size, i64 count, const INDEX* index, const u32* seen, const u32* first, u32* start, u32* taken) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  i64 row = index[i];
  if (row < 0) row += size;
  if (row < 0 || row >= size || first[row] != (u32)i || seen[row] < 2) return;
  start[row] = atomicAdd(taken, seen[row]);
}

// The list, each row's places in any order; `filled` is 0 before.
KERNEL enlist(i64 size, i64 count, const INDEX* index, const u32* seen, const u32* start, u32* filled, u32* list) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  i64 row = index[i];
  if (row < 0) row += size;
  if (row < 0 || row >= size || seen[row] < 2) return;
  list[start[row] + atomicAdd(filled + row, 1u)] = (u32)i;
}

// A block for each place of the index and each outer: the first that names a row adds up all that do, in their order.
#define SORTED 2048  // places at a time
KERNEL add_up(i64 size, i64 inner, i64 count, T* dx, const T* dy, const INDEX* index, const u32* seen, const u32* first,
              const u32* start, const u32* list, i64 padding) {
  __shared__ u32 given[SORTED], sorted[SORTED];
  __shared__ u32 kept;
  const i64 i = blockIdx.x;
  const i64 outer = blockIdx.y;
  i64 row = index[i];
  if (row < 0) row += size;
  if (row < 0 || row >= size || row == padding || first[row] != (u32)i) return;
  const u32 total = seen[row];
  T* to = dx + (outer * size + row) * inner;
  const T* from = dy + outer * count * inner;
  if (total == 1) {
    for (i64 j = threadIdx.x; j < inner; j += blockDim.x) to[j] = from[i * inner + j];
    return;
  }
  const u32* const places = list + start[row];
  // Columns of this thread, eight in registers at a time.
  for (i64 base = 0; base < inner; base += 8 * (i64)blockDim.x) {
    float sum[8] = {};
    u32 done = 0;
    // Places from `low` up to `low` + width, as many as surely fit; all of them at once where they do.
    const u32 width = total <= SORTED ? 0xffffffffu : SORTED;
    for (u32 low = 0; done < total; low += width) {
      __syncthreads();
      if (threadIdx.x == 0) kept = 0;
      __syncthreads();
      for (u32 f = threadIdx.x; f < total; f += blockDim.x) {
        const u32 place = places[f];
        if (place - low < width) given[atomicAdd(&kept, 1u)] = place;
      }
      __syncthreads();
      const u32 found = kept;
      for (u32 f = threadIdx.x; f < found; f += blockDim.x) {
        const u32 own = given[f];
        u32 rank = 0;
        for (u32 other = 0; other < found; ++other) rank += given[other] < own;
        sorted[rank] = own;
      }
      __syncthreads();
#pragma unroll 4
      for (u32 f = 0; f < found; ++f) {
        const T* line = from + (i64)sorted[f] * inner;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const i64 j = base + threadIdx.x + k * (i64)blockDim.x;
          if (j < inner) sum[k] += wide(line[j]);
        }
      }
      done += found;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const i64 j = base + threadIdx.x + k * (i64)blockDim.x;
      if (j < inner) to[j] = narrow<T>(sum[k]);
    }
  }
}
#endif

#ifdef ELEMENTS
// Element i of the index space (the index's own shape, walked by `lines` without the axis) names a place along the axis.
KERNEL take(i64 n, T* y, const T* x, const INDEX* index, Walk in_x, Walk axis_of, i64 size, i64 stride, Fault fault) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[place(in_x, i) + resolved(index[i], size, 1, i, fault) * stride];
}

// A thread for each line along the axis, so that what lands on one element is added in order.
KERNEL put(i64 lines, i64 length, T* y, const T* x, const INDEX* index, Walk in_y, Walk in_index, i64 size, i64 stride, i64 index_stride,
           Fault fault) {
  const i64 line = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  T* to = y + place(in_y, line);
  const i64 from = place(in_index, line);
  for (i64 k = 0; k < length; ++k) {
    const i64 at = from + k * index_stride;
    T* target = to + resolved(index[at], size, 1, at, fault) * stride;
#ifdef ADDS
    *target = narrow<T>(wide(*target) + wide(x[at]));
#else
    *target = x[at];
#endif
  }
}
#endif

#ifdef ONE_HOT
KERNEL run(i64 n, i64 depth, OUT* y, const INDEX* index, Fault fault) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * depth) return;
  const i64 hot = index[i / depth];
  if (i % depth == 0 && (hot < 0 || hot >= depth)) report(fault, hot, i / depth, 0, depth - 1);
  y[i] = narrow<OUT>(i % depth == hot ? 1 : 0);
}
#endif

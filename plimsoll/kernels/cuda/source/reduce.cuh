// y[o] = FINISH of the combination of MAP(x) over the elements r that become o: x lies at place(kept, o) + place(gone, r).
// The range of r is cut into gridDim.y parts, whose results lie in `partial` [parts][outputs] for a second launch.
//   T, OUT   element types, ACC what is combined     NONE, MAP (of x), OP (Add ..), FINISH (of sum and count)
//   by_rows: a block for each o. by_columns: a thread for each o.
DEVICE i64 begin_of(i64 count, i64 part, i64 parts) { return count / parts * part + (part < count % parts ? part : count % parts); }

DEVICE void put(OUT* y, ACC* partial, i64 o, i64 outputs, i64 total, ACC sum) {
  if (partial != 0) {
    partial[(i64)blockIdx.y * outputs + o] = sum;
  } else {
    const i64 count = total;
    y[o] = narrow<OUT>(FINISH);
  }
}

KERNEL by_rows(i64 outputs, i64 gone_count, i64 total, OUT* y, ACC* partial, const T* x, Walk kept, Walk gone) {
  __shared__ ACC shared[32];
  const i64 o = blockIdx.x;
  const T* from = x + place(kept, o);
  const i64 first = begin_of(gone_count, blockIdx.y, gridDim.y), last = begin_of(gone_count, blockIdx.y + 1, gridDim.y);
  ACC sum = NONE;
  if (gone.rank == 1 && gone.stride[0] == 1) {
    for (i64 r = first + threadIdx.x; r < last; r += blockDim.x) {
      const Wide<T>::type v = wide(from[r]);
      sum = OP::of(sum, (ACC)(MAP));
    }
  } else {
    for (i64 r = first + threadIdx.x; r < last; r += blockDim.x) {
      const Wide<T>::type v = wide(from[place(gone, r)]);
      sum = OP::of(sum, (ACC)(MAP));
    }
  }
  sum = over_block<OP>(sum, shared, (ACC)NONE);
  if (threadIdx.x == 0) put(y, partial, o, outputs, total, sum);
}

KERNEL by_columns(i64 outputs, i64 gone_count, i64 total, OUT* y, ACC* partial, const T* x, Walk kept, Walk gone) {
  const i64 o = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= outputs) return;
  const T* from = x + place(kept, o);
  const i64 first = begin_of(gone_count, blockIdx.y, gridDim.y), last = begin_of(gone_count, blockIdx.y + 1, gridDim.y);
  ACC sum = NONE;
  if (gone.rank == 1) {
    const i64 stride = gone.stride[0];
#pragma unroll 8
    for (i64 r = first; r < last; ++r) {
      const Wide<T>::type v = wide(from[r * stride]);
      sum = OP::of(sum, (ACC)(MAP));
    }
  } else {
    for (i64 r = first; r < last; ++r) {
      const Wide<T>::type v = wide(from[place(gone, r)]);
      sum = OP::of(sum, (ACC)(MAP));
    }
  }
  put(y, partial, o, outputs, total, sum);
}

// by_columns for rows without gaps: x is [gone_count, outputs], eight columns for a thread.
KERNEL by_columns8(i64 outputs, i64 gone_count, i64 total, OUT* y, ACC* partial, const T* x, Walk kept, Walk gone) {
  const i64 o = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
  if (o >= outputs) return;
  const i64 first = begin_of(gone_count, blockIdx.y, gridDim.y), last = begin_of(gone_count, blockIdx.y + 1, gridDim.y);
  ACC sums[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) sums[k] = NONE;
#pragma unroll 4
  for (i64 r = first; r < last; ++r) {
    Wide<T>::type row[8];
    load8(x + r * outputs + o, row);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const Wide<T>::type v = row[k];
      sums[k] = OP::of(sums[k], (ACC)(MAP));
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) put(y, partial, o + k, outputs, total, sums[k]);
}

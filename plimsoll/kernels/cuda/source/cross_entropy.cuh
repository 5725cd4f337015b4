// Losses of lines of logits as softmax.cuh has them, a block for each line; INDEX is the type of targets.
struct Running {
  float largest;
  float sum;
};

// log(sum(exp)) of two sets together.
DEVICE Running joined(Running a, Running b) {
  Running all;
  all.largest = fmaxf(a.largest, b.largest);
  if (all.largest == -INFINITE) {
    all.sum = 0;
  } else {
    all.sum = a.sum * expf(a.largest - all.largest) + b.sum * expf(b.largest - all.largest);
  }
  return all;
}

// Eight at once, so that the sum is scaled once for them.
DEVICE void add_eight(Running& all, const float* v) {
  float largest = all.largest;
#pragma unroll
  for (int k = 0; k < 8; ++k) largest = fmaxf(largest, v[k]);
  if (largest == -INFINITE) return;
  float sum = all.sum * __expf(all.largest - largest);
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += __expf(v[k] - largest);
  all.largest = largest;
  all.sum = sum;
}

DEVICE void add_to(Running& all, float v) {
  if (v > all.largest) {
    all.sum = all.sum * expf(all.largest - v) + 1;
    all.largest = v;
  } else if (v != -INFINITE) {
    all.sum += expf(v - all.largest);
  }
}

// Elements before the first that lies on a vector's boundary.
DEVICE i64 head_of(const T* line, i64 n) {
  const i64 head = (i64)((8 - (u64)line / sizeof(T) % 8) % 8);
  return head < n ? head : n;
}

KERNEL forward(i64 n, i64 stride, const T* logits, const INDEX* targets, float* losses, float* lse, i64 ignored, float smoothing,
               Fault fault) {
  __shared__ float largest_of[32];
  __shared__ float sum_of[32];
  __shared__ float shared[32];
  const i64 line = blockIdx.x;
  const i64 start = line / stride * n * stride + line % stride;
  const i64 target = targets[line];
  if (target == ignored) {
    if (threadIdx.x == 0) {
      losses[line] = 0;
      if (lse != 0) lse[line] = 0;
    }
    return;
  }
  if (target < 0 || target >= n) {
    if (threadIdx.x == 0) {
      report(fault, target, line, 0, n - 1);
      losses[line] = NOT_A_NUMBER;
      if (lse != 0) lse[line] = 0;
    }
    return;
  }
  Running all = {-INFINITE, 0};
  float logits_sum = 0;
  if (stride == 1) {
    const i64 head = head_of(logits + start, n), end = head + (n - head) / 8 * 8;
    for (i64 i = head + 8 * threadIdx.x; i < end; i += 8 * blockDim.x) {
      float v[8];
      load8(logits + start + i, v);
      add_eight(all, v);
#pragma unroll
      for (int k = 0; k < 8; ++k) logits_sum += v[k];
    }
    for (i64 i = threadIdx.x; i < head + n - end; i += blockDim.x) {
      const float v = wide(logits[start + (i < head ? i : end + i - head)]);
      add_to(all, v);
      logits_sum += v;
    }
  } else {
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
      const float v = wide(logits[start + i * stride]);
      add_to(all, v);
      logits_sum += v;
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    Running other;
    other.largest = shuffled(all.largest, step);
    other.sum = shuffled(all.sum, step);
    all = joined(all, other);
  }
  if ((threadIdx.x & 31) == 0) {
    largest_of[threadIdx.x >> 5] = all.largest;
    sum_of[threadIdx.x >> 5] = all.sum;
  }
  logits_sum = over_block<Add>(logits_sum, shared, 0.0f);
  __syncthreads();
  if (threadIdx.x > 0) return;
  all.largest = largest_of[0];
  all.sum = sum_of[0];
  for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) {
    Running other;
    other.largest = largest_of[warp];
    other.sum = sum_of[warp];
    all = joined(all, other);
  }
  const float log_sum = isinf(all.largest) ? all.largest : all.largest + logf(all.sum);
  float loss = (1 - smoothing) * (log_sum - wide(logits[start + target * stride]));
  if (smoothing != 0) loss += smoothing * (log_sum - logits_sum / (float)n);
  losses[line] = loss;
  if (lse != 0) lse[line] = log_sum;
}

// One block: loss = sum(losses), over how many lines count where `mean`. Writes that count where asked.
KERNEL finish(i64 lines, const float* losses, const INDEX* targets, i64 ignored, i32 mean, float* loss, float* counted) {
  __shared__ float shared[32];
  float sum = 0;
  i32 count = 0;
  for (i64 i = threadIdx.x; i < lines; i += blockDim.x) {
    if (losses != 0) sum += losses[i];
    count += targets[i] != ignored;
  }
  __shared__ i32 counts[32];
  sum = over_block<Add>(sum, shared, 0.0f);
  count = over_block<Add>(count, counts, 0);
  if (threadIdx.x > 0) return;
  if (loss != 0) *loss = mean ? sum / (float)count : sum;
  if (counted != 0) *counted = mean ? (float)count : 1.0f;
}

KERNEL backward(i64 n, i64 stride, T* dx, const float* dloss, i32 each, const T* logits, const INDEX* targets, const float* lse,
                const float* counted, i64 ignored, float smoothing) {
  const i64 line = blockIdx.x;
  const i64 start = line / stride * n * stride + line % stride;
  const i64 target = targets[line];
  const bool counts = target != ignored;
  const float slope = counts ? dloss[each ? line : 0] / (counted != 0 ? *counted : 1.0f) : 0;
  const float base = counts ? lse[line] : 0;
  const float share = smoothing / (float)n;
  if (stride == 1) {
    const i64 head = head_of(logits + start, n), end = head + (n - head) / 8 * 8;
    for (i64 i = threadIdx.x; i < head + n - end; i += blockDim.x) {
      const i64 j = i < head ? i : end + i - head;
      const float probability = expf(wide(logits[start + j]) - base);
      dx[start + j] = narrow<T>(counts ? slope * (probability - share - (j == target ? 1 - smoothing : 0)) : 0);
    }
    for (i64 i = head + 8 * threadIdx.x; i < end; i += 8 * blockDim.x) {
      float v[8];
      load8(logits + start + i, v);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        v[k] = counts ? slope * (__expf(v[k] - base) - share - (i + k == target ? 1 - smoothing : 0)) : 0;
      }
      store8(dx + start + i, v);
    }
    return;
  }
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const i64 at = start + i * stride;
    const float probability = expf(wide(logits[at]) - base);
    dx[at] = narrow<T>(counts ? slope * (probability - share - (i == target ? 1 - smoothing : 0)) : 0);
  }
}

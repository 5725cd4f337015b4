// Sums on several threads that have the same bits on any number of them.
#pragma once

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

inline void add_row(float* sum, const float* x, int64_t columns) {
  vectorised([=] {
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) sum[j] += x[j];
  });
}

// y = the sum of `parts` rows of `partial`, `columns` wide.
inline void add_partials(float* y, const float* partial, int parts, int64_t columns) {
  for (int64_t j = 0; j < columns; ++j) y[j] = 0;
  for (int part = 0; part < parts; ++part) add_row(y, partial + part * columns, columns);
}

// Parts that a long sum is made of, whatever the number of threads, so that it has the same bits on any.
inline constexpr int kSumParts = 8;
inline int sum_parts(int64_t count, int64_t grain) { return count >= 2 * grain ? kSumParts : 1; }

// Calls f(part, thread, begin, end) for sum_parts that together are [0, count).
template <class F>
void parallel_sums(int threads, int64_t count, int64_t grain, const F& f) {
  const int parts = sum_parts(count, grain);
  parallel(threads, parts, 1, [&](int thread, int64_t first, int64_t last) {
    for (auto part = static_cast<int>(first); part < last; ++part) {
      f(part, thread, count * part / parts, count * (part + 1) / parts);
    }
  });
}

// y[j] = sum of x[i, j] over i: each thread has some columns, so no sum is divided.
struct ColumnSums {
  int64_t rows;
  int64_t columns;
  int threads;

  ColumnSums(int64_t row_count, int64_t column_count, int thread_count)
      : rows(row_count), columns(column_count), threads(thread_count) {}

  // The sums, and a row of f16 or bf16 as f32.
  int64_t scratch_bytes() const { return align_up(2 * columns * 4, kAlignment); }

  void run(const WideInput& x, float* scratch, const WideOutput& y) const {
    constexpr int64_t kColumns = kAlignment / 4;  // that are not worth dividing
    const int64_t grain = kGrain / (rows * kColumns + 1) + 1;
    float* workspace = scratch + columns;
    float* total = y.line(0, scratch);
    parallel(threads, (columns + kColumns - 1) / kColumns, grain, [&](int, int64_t begin, int64_t end) {
      const int64_t first = begin * kColumns;
      const int64_t count = std::min(end * kColumns, columns) - first;
      float* sum = total + first;
      for (int64_t j = 0; j < count; ++j) sum[j] = 0;
      for (int64_t i = 0; i < rows; ++i) add_row(sum, x.line(i * columns + first, count, workspace + first), count);
    });
    y.keep(0, columns, total);
  }
};

}  // namespace plimsoll::kernels

// Sums over the rows of a matrix, on several threads, each with partial sums of its own in scratch.
#pragma once

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/halves_copy.h"
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

// y[j] = sum of x[i, j] over i.
struct ColumnSums {
  int64_t rows;
  int64_t columns;
  int threads;

  ColumnSums(int64_t row_count, int64_t column_count, int thread_count)
      : rows(row_count), columns(column_count), threads(thread_count) {}

  // For each thread its sums, and a row of f16 or bf16 as f32.
  int64_t scratch_bytes() const { return align_up(2 * threads * columns * 4, kAlignment); }

  void run(const WideInput& x, float* scratch, const WideOutput& y) const {
    const int64_t grain = kGrain / (columns + 1) + 1;
    float* room = scratch + threads * columns;
    parallel(threads, rows, grain, [&](int part, int64_t begin, int64_t end) {
      float* sum = scratch + part * columns;
      for (int64_t j = 0; j < columns; ++j) sum[j] = 0;
      for (int64_t i = begin; i < end; ++i) add_row(sum, x.line(i * columns, columns, room + part * columns), columns);
    });
    float* total = y.line(0, room);
    add_partials(total, scratch, parts_of(threads, rows, grain), columns);
    y.keep(0, columns, total);
  }
};

}  // namespace plimsoll::kernels

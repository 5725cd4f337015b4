#include "plimsoll/kernels/cpu/support/gemm.h"

#include <cstring>

#include "plimsoll/kernels/cpu/support/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kWidth = 16;
using Vector [[gnu::vector_size(kWidth * sizeof(float))]] = float;

[[gnu::always_inline]] inline void load(Vector& vector, const float* from) {
  std::memcpy(&vector, from, sizeof vector);
}

// R rows by V vectors of c, kept in registers over the whole inner dimension.
template <int R, int V>
[[gnu::always_inline]] inline void block(const TileProduct& p, int64_t row, int64_t column) {
  Vector sums[R][V] = {};
  for (int r = 0; p.add && r < R; ++r) {
    for (int v = 0; v < V; ++v) load(sums[r][v], p.c + (row + r) * p.c_row + column + v * kWidth);
  }
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column;
  for (int64_t k = 0; k < p.inner; ++k) {
    Vector line[V];
    for (int v = 0; v < V; ++v) load(line[v], b + k * p.b_row + v * kWidth);
    for (int r = 0; r < R; ++r) {
      const float factor = a[r * p.a_row + k * p.a_step];
      for (int v = 0; v < V; ++v) sums[r][v] += factor * line[v];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      std::memcpy(p.c + (row + r) * p.c_row + column + v * kWidth, &sums[r][v], sizeof(Vector));
    }
  }
}

template <int V>
[[gnu::always_inline]] inline void columns_block(const TileProduct& p, int64_t column) {
  int64_t row = 0;
  for (; row + 6 <= p.rows; row += 6) block<6, V>(p, row, column);
  for (; row + 2 <= p.rows; row += 2) block<2, V>(p, row, column);
  for (; row < p.rows; ++row) block<1, V>(p, row, column);
}

// What is left of a width that is no multiple of a vector.
[[gnu::always_inline]] inline void last_columns(const TileProduct& p, int64_t first) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = first; column < p.columns; ++column) {
      float sum = p.add ? p.c[row * p.c_row + column] : 0;
      for (int64_t k = 0; k < p.inner; ++k) sum += p.a[row * p.a_row + k * p.a_step] * p.b[k * p.b_row + column];
      p.c[row * p.c_row + column] = sum;
    }
  }
}

}  // namespace

PLIMSOLL_VECTORISED void multiply(const TileProduct& p) {
  int64_t column = 0;
  for (; column + 4 * kWidth <= p.columns; column += 4 * kWidth) columns_block<4>(p, column);
  for (; column + kWidth <= p.columns; column += kWidth) columns_block<1>(p, column);
  last_columns(p, column);
}

void transpose_tile(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) to[column * to_row + row] = from[row * from_row + column];
  }
}

}  // namespace plimsoll::kernels

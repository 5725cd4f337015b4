// Products and transposes of small matrices.
#pragma once

#include "plimsoll/kernels/cpu/simd/body/vectors.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

// ---- products ----

// R rows by V vectors of c, kept in registers over the whole inner dimension.
template <int R, int V>
[[gnu::always_inline]] inline void block(const TileProduct& p, int64_t row, int64_t column) {
  Floats sums[R][V] = {};
  for (int r = 0; p.add && r < R; ++r) {
    for (int v = 0; v < V; ++v) sums[r][v] = load<Floats>(p.c + (row + r) * p.c_row + column + v * kLanes);
  }
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column;
  for (int64_t k = 0; k < p.inner; ++k) {
    Floats line[V];
    for (int v = 0; v < V; ++v) line[v] = load<Floats>(b + k * p.b_row + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const float factor = a[r * p.a_row + k * p.a_step];
      for (int v = 0; v < V; ++v) sums[r][v] += factor * line[v];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) store(p.c + (row + r) * p.c_row + column + v * kLanes, sums[r][v]);
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
void last_columns(const TileProduct& p, int64_t first) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = first; column < p.columns; ++column) {
      float sum = p.add ? p.c[row * p.c_row + column] : 0;
      for (int64_t k = 0; k < p.inner; ++k) sum += p.a[row * p.a_row + k * p.a_step] * p.b[k * p.b_row + column];
      p.c[row * p.c_row + column] = sum;
    }
  }
}

void multiply(const TileProduct& p) {
  int64_t column = 0;
  for (; column + 4 * kLanes <= p.columns; column += 4 * kLanes) columns_block<4>(p, column);
  for (; column + kLanes <= p.columns; column += kLanes) columns_block<1>(p, column);
  last_columns(p, column);
}

// ---- transposes ----

template <int64_t... kLane>
struct LaneList {};
using AllLanes = LaneList<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;

// Exchanges the upper right with the lower left square of size D, in all squares of twice that size that the two rows,
// which are D apart, go through.
template <int64_t D, int64_t... kLane>
[[gnu::always_inline]] inline void exchange(Floats& upper, Floats& lower, LaneList<kLane...> /*lanes*/) {
  const Floats first = __builtin_shufflevector(upper, lower, ((kLane & D) == 0 ? kLane : kLanes + kLane - D)...);
  lower = __builtin_shufflevector(upper, lower, ((kLane & D) == 0 ? kLane + D : kLanes + kLane)...);
  upper = first;
}

template <int64_t D>
[[gnu::always_inline]] inline void exchange_squares(Floats* rows) {
  for (int64_t row = 0; row < kLanes; ++row) {
    if ((row & D) == 0) exchange<D>(rows[row], rows[row + D], AllLanes{});
  }
}

[[gnu::always_inline]] inline void transpose_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Floats rows[kLanes];
  for (int64_t row = 0; row < kLanes; ++row) rows[row] = load<Floats>(from + row * from_row);
  exchange_squares<8>(rows);
  exchange_squares<4>(rows);
  exchange_squares<2>(rows);
  exchange_squares<1>(rows);
  for (int64_t row = 0; row < kLanes; ++row) store(to + row * to_row, rows[row]);
}

void transpose(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
  const int64_t whole_rows = rows / kLanes * kLanes;
  const int64_t whole_columns = columns / kLanes * kLanes;
  for (int64_t row = 0; row < whole_rows; row += kLanes) {
    for (int64_t column = 0; column < whole_columns; column += kLanes) {
      transpose_square(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row < whole_rows ? whole_columns : 0;
    for (int64_t column = first; column < columns; ++column) to[column * to_row + row] = from[row * from_row + column];
  }
}

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD

// Products of small matrices that are in the cache, on one thread: the inner part of kernels that work by tiles.
#pragma once

#include <cstdint>

namespace plimsoll::kernels {

// Rows may be any distance apart; the columns of b and c lie together, those of a `step` apart (so a may be
// transposed).
struct TileProduct {
  int64_t rows, columns, inner;  // c is [rows, columns], a [rows, inner], b [inner, columns]
  const float* a;
  int64_t a_row, a_step;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;  // to what is in c
};

void multiply(const TileProduct& product);

// [rows, columns] to [columns, rows].
void transpose_tile(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns);

}  // namespace plimsoll::kernels

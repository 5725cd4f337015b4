// Products of small matrices that are in the cache, on one thread: the inner part of kernels that work by tiles.
#pragma once

#include "plimsoll/kernels/cpu/simd/simd.h"

namespace plimsoll::kernels {

using simd::TileProduct;
inline void multiply(const TileProduct& product) { simd::functions().multiply(product); }

// [rows, columns] to [columns, rows].
inline void transpose_tile(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows,
                           int64_t columns) {
  simd::functions().transpose(from, from_row, to, to_row, rows, columns);
}

}  // namespace plimsoll::kernels

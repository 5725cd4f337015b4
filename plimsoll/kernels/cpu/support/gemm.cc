#include "plimsoll/kernels/cpu/support/gemm.h"

namespace plimsoll::kernels {

void transpose_tile(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) to[column * to_row + row] = from[row * from_row + column];
  }
}

}  // namespace plimsoll::kernels

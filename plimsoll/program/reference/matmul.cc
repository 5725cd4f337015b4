#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

// Where element (row, column) of a matrix lies, as multiplied.
struct Matrix {
  int64_t rows;
  int64_t columns;
  bool transposed;

  size_t at(int64_t batch, int64_t row, int64_t column) const {
    const int64_t inside = transposed ? column * rows + row : row * columns + column;
    return static_cast<size_t>(batch * rows * columns + inside);
  }
};

Matrix matrix(const Shape& shape, bool transposed) {
  const int64_t rows = shape[shape.rank() - 2];
  const int64_t columns = shape[shape.rank() - 1];
  return transposed ? Matrix{columns, rows, true} : Matrix{rows, columns, false};
}

template <class T>
void multiply(Run<T>& run) {
  const Matrix a = matrix(run.shape(0), run.call.flag("transpose_a"));
  const Matrix b = matrix(run.shape(1), run.call.flag("transpose_b"));
  const Matrix y = matrix(run.out().shape, false);
  const int64_t batches = y.rows * y.columns == 0 ? 0 : run.out().elements() / (y.rows * y.columns);
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t i = 0; i < y.rows; ++i) {
      for (int64_t j = 0; j < y.columns; ++j) {
        T& sum = run.out().reals[y.at(batch, i, j)];
        for (int64_t k = 0; k < a.columns; ++k)
          sum += run.reals(0)[a.at(batch, i, k)] * run.reals(1)[b.at(batch, k, j)];
      }
    }
  }
}

}  // namespace

void register_matmul_reference(OpTable& table) {
  table.reference("matmul", [](auto& run) { multiply(run); });
}

}  // namespace plimsoll::program

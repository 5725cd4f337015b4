#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

// Where element (row, column) of a matrix lies, as multiplied.
struct Matrix {
  int64_t rows;
  int64_t columns;
  bool transposed;

  size_t at(size_t batch, int64_t row, int64_t column) const {
    const int64_t inside = transposed ? column * rows + row : row * columns + column;
    return batch * static_cast<size_t>(rows * columns) + static_cast<size_t>(inside);
  }
};

Matrix matrix(const Shape& shape, bool transposed) {
  const int64_t rows = shape[shape.rank() - 2];
  const int64_t columns = shape[shape.rank() - 1];
  return transposed ? Matrix{columns, rows, true} : Matrix{rows, columns, false};
}

Shape batch_of(const Shape& shape) { return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - 2))); }

// Adds the products of all batches of a and b into y, whose batches may be fewer: those are summed.
template <class T>
void multiply(Run<T>& run) {
  const Matrix a = matrix(run.shape(0), run.call.flag("transpose_a"));
  const Matrix b = matrix(run.shape(1), run.call.flag("transpose_b"));
  const Matrix y = matrix(run.out().shape, false);
  const Shape batch_a = batch_of(run.shape(0));
  const Shape batch_b = batch_of(run.shape(1));
  const Shape batch_y = batch_of(run.out().shape);
  const Shape all = broadcast_shapes(Dims(batch_a), Dims(batch_b))->shape();
  for_each_index(all, [&](const Index& index, size_t /*place*/) {
    const auto place_in = [&](const Shape& batch) {
      return place_of(batch, broadcast_index(batch, all.rank(), index));
    };
    const size_t in_a = place_in(batch_a);
    const size_t in_b = place_in(batch_b);
    const size_t in_y = place_in(batch_y);
    for (int64_t i = 0; i < y.rows; ++i) {
      for (int64_t j = 0; j < y.columns; ++j) {
        T& sum = run.out().reals[y.at(in_y, i, j)];
        for (int64_t k = 0; k < a.columns; ++k) sum += run.reals(0)[a.at(in_a, i, k)] * run.reals(1)[b.at(in_b, k, j)];
      }
    }
  });
}

}  // namespace

void register_matmul_reference(OpTable& table) {
  table.reference("matmul", [](auto& run) { multiply(run); });
  table.reference("matmul_sum", [](auto& run) { multiply(run); });
}

}  // namespace plimsoll::program

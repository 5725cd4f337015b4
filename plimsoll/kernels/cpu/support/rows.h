// Walking operands that lie in any layout beside a result in row-major order: dimensions that lie together in all of
// them become one, and what is left is rows along the last dimension.
#pragma once

#include <algorithm>
#include <array>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

template <size_t N>
class Rows {
 public:
  // Operands broadcast to `shape`.
  Rows(const Shape& shape, const std::array<TensorDesc, N>& operands) {
    for (int axis = 0; axis < shape.rank(); ++axis) append(shape, operands, axis);
    if (rank_ == 0) rank_ = 1;
  }

  int64_t length() const { return sizes_[last()]; }
  int64_t count() const {
    int64_t rows = 1;
    for (size_t axis = 0; axis < last(); ++axis) rows *= sizes_[axis];
    return rows;
  }
  // From one element of a row to the next, in an operand.
  int64_t step(size_t operand) const { return strides_[operand][last()]; }

  // Where a row begins in each operand.
  std::array<int64_t, N> offsets(int64_t row) const {
    std::array<int64_t, N> offsets{};
    for (size_t axis = last(); axis-- > 0; row /= sizes_[axis]) {
      for (size_t i = 0; i < N; ++i) offsets[i] += row % sizes_[axis] * strides_[i][axis];
    }
    return offsets;
  }

 private:
  size_t last() const { return rank_ - 1; }

  void append(const Shape& shape, const std::array<TensorDesc, N>& operands, int axis) {
    if (shape[axis] == 1) return;
    std::array<int64_t, N> strides{};
    bool joins = rank_ > 0;
    for (size_t i = 0; i < N; ++i) {
      const int place = axis - (shape.rank() - operands[i].shape.rank());
      strides[i] = place < 0 || operands[i].shape[place] == 1 ? 0 : operands[i].stride(place);
      joins = joins && strides_[i][last()] == strides[i] * shape[axis];
    }
    if (!joins) ++rank_;
    sizes_[last()] = joins ? sizes_[last()] * shape[axis] : shape[axis];
    for (size_t i = 0; i < N; ++i) strides_[i][last()] = strides[i];
  }

  size_t rank_ = 0;
  std::array<int64_t, Shape::kMaxRank> sizes_ = {1, 1, 1, 1, 1, 1, 1, 1};
  std::array<std::array<int64_t, Shape::kMaxRank>, N> strides_{};
};

}  // namespace plimsoll::kernels

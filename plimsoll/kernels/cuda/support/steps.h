// Writing a kernel as a list of steps: operands in the order that a launch wants, scratch in pieces.
#pragma once

#include <optional>

#include "plimsoll/kernels/cuda/support/launch.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::kernels::cuda {

// As common.cuh has it: where element i of an index space lies.
struct Walk {
  int32_t rank = 0;
  int32_t pad = 0;
  int64_t size[8] = {};
  int64_t stride[8] = {};

  // Appends a dimension, or makes the last one longer where both are one in memory.
  void add(int64_t elements, int64_t step);
  int64_t elements() const;
};

// The elements of a tensor as broadcasting shows them in `shape`, in row-major order.
Walk walk_of(const TensorDesc& tensor, const Shape& shape);
inline Walk walk_of(const TensorDesc& tensor) { return walk_of(tensor, tensor.shape); }
Walk straight(int64_t elements);

// Dimensions of a tensor that are in the set, or those that are not.
Walk walk_along(const TensorDesc& tensor, program::AxisSet axes, bool in_set);

// [outer, size, inner] of a shape around an axis.
struct Around {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  Around(const Shape& shape, int axis);
};

class Steps {
 public:
  explicit Steps(const KernelCall& call) : call_(call) {}

  // Operand i in row-major order: itself, or a copy in scratch that is made first. Blocked ones as they are.
  At contiguous(int i);
  // Null where there are fewer operands.
  At contiguous_or_none(int i) { return i < call_.arity() ? contiguous(i) : none(); }
  // Result k, null where it is not wanted.
  At wanted(int k) const { return k < static_cast<int>(call_.requested.size()) && call_.produces(k) ? out(k) : none(); }

  At scratch(int64_t bytes) { return scratch_.take(bytes); }
  void launch(Launch launch) { steps_.push_back(step(std::move(launch))); }
  void add(Step one) { steps_.push_back(std::move(one)); }
  const KernelCall& call() const { return call_; }

  Kernel kernel() { return kernel_of(std::move(steps_), scratch_.bytes()); }

 private:
  const KernelCall& call_;
  Scratch scratch_;
  std::vector<Step> steps_;
  std::vector<std::optional<At>> copied_;
};

// From one layout to another of the same shape; sixteen bytes at a time where both lie so.
Step copy_step(DType dtype, At from, const Walk& source, At to, const Walk& target);

// Between row-major order and channels last: [batch, rows, columns] to [batch, columns, rows].
Launch transpose_launch(DType dtype, At from, At to, int64_t batch, int64_t rows, int64_t columns);

// The unsigned type of a dtype's size, for what only moves elements.
std::string_view unit_of(DType dtype);

}  // namespace plimsoll::kernels::cuda

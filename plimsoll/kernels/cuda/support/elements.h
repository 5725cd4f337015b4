// Kernels that compute element by element.
#pragma once

#include <initializer_list>

#include "plimsoll/kernels/cuda/support/steps.h"

namespace plimsoll::kernels::cuda {

struct Formula {
  std::string value;                   // of x0, x1, x2 and p0 .. p3, as device code
  std::string taken = {};              // the bit of result 1, where it has a mask
  std::array<double, 4> numbers = {};  // p0 .. p3
  bool reads_mask = false;             // `bit` is of the operand after the last
};

// An operand of a formula.
struct Term {
  At at;
  TensorDesc tensor;
};

// y, of this type and row-major, from the terms, which broadcast to it. `mask` may be null.
Launch element_launch(const Formula& formula, const std::vector<Term>& terms, const TensorDesc& y, At to, At mask);

// Result 0 from operands `from` on, `count` of them.
Kernel element_kernel(const KernelCall& call, const Formula& formula, int count, int from = 0);

// Blocked together with all operands of the same shape.
Blocking together(std::vector<int> inputs, std::vector<int> outputs);

}  // namespace plimsoll::kernels::cuda

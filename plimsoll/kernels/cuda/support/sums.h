// Reductions in a fixed order: the same partition of the work in every run.
#pragma once

#include "plimsoll/kernels/cuda/support/steps.h"

namespace plimsoll::kernels::cuda {

// How elements are combined: device code. `map` is of v, `finish` of sum and count.
struct Reduction {
  std::string map = "v";
  std::string op = "Add";
  std::string none = "0";
  std::string finish = "sum";
};

// y, row-major, one element for each place in `kept`, from the elements that `gone` walks there.
struct ReducedOf {
  DType dtype;
  At at;
  Walk kept;
  Walk gone;
};
void reduce(Steps& steps, const ReducedOf& x, const Reduction& how, DType out_dtype, At y);

// The same of a tensor along axes.
void reduce(Steps& steps, const TensorDesc& x, At at, program::AxisSet axes, const Reduction& how, DType out_dtype,
            At y);

// Into how many parts work of `rows` is cut, for about `wanted` of them with at least `least` rows each.
int64_t parts_of(int64_t rows, int64_t wanted, int64_t least);

}  // namespace plimsoll::kernels::cuda

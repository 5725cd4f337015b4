// The gradient of a linear layer's weights, dw = dy' x, on matrix units. Both operands have to be brought into another
// order for that, which oneDNN does anew for every part that it multiplies.
#pragma once

#include <optional>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

struct LinearWeights {
  int64_t rows, out, in;  // dy is [rows, out], x [rows, in]
};

// Operands dy and x, result dw. Nothing where this is not for the use: no matrix units, or small matrices.
std::optional<LinearWeights> linear_weights(const Use& use);

// Makes result 0 alone.
Kernel linear_weights_kernel(const LinearWeights& sizes, const Use& use);

}  // namespace plimsoll::kernels

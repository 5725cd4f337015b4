// Matrix products.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

struct MatmulOptions {
  bool transpose_a = false;  // the last two dimensions of a change places before the product
  bool transpose_b = false;
};

// a[..,m,k] times b[..,k,n] is [..,m,n]. The dimensions before the last two are batches and broadcast. The gradient of
// one operand reads the other; where an operand was broadcast, its gradient is summed while it is made.
Value matmul(Builder& b, Value a, Value z, MatmulOptions options = {});

// The product, summed over batches until its batch dimensions are `batch`, which broadcasts to what they were.
Value matmul_sum(Builder& b, Value a, Value z, const Dims& batch, MatmulOptions options = {});

}  // namespace plimsoll::program

// Matrix products.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

struct MatmulOptions {
  bool transpose_a = false;  // the last two dimensions of a change places before the product
  bool transpose_b = false;
};

// a[..,m,k] times b[..,k,n] is [..,m,n]. The dimensions before the last two are batches, the same in both.
Value matmul(Builder& b, Value a, Value z, MatmulOptions options = {});

}  // namespace plimsoll::program

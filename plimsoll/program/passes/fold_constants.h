// Constant folding.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// Constants are fills and views of them.
//  - An element-wise op of constants becomes a fill. It is computed once, in f64.
//  - A constant operand becomes an attribute, where that gives the same number: x * c, x + c, x - c, c - x, x / c for a
//    power of two become `affine`, x to the c becomes `pow_scalar`.
//  - Readers of x * 1 and x + 0 read x.
Program fold_constants(Program program);

}  // namespace plimsoll::program

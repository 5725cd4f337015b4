// Element-wise ops of two or three operands. Operands have one dtype and broadcast as in NumPy: shapes are aligned at
// the last dimension and sizes are equal or 1. Gradients are summed back to the operand's shape. What backward reads:
//   nothing             add, sub
//   one bit an element  maximum, minimum
//   the other operand   mul
//   divisor and output  div (only the divisor for the gradient of x)
//   both operands       pow
//   the condition       where, keep_where
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

Value add(Builder& b, Value x, Value z);  // also what sums of gradients are made of
Value sub(Builder& b, Value x, Value z);
Value mul(Builder& b, Value x, Value z);
Value div(Builder& b, Value x, Value z);      // floating
Value pow(Builder& b, Value x, Value z);      // x to the z, floating
Value maximum(Builder& b, Value x, Value z);  // where both are equal the gradient goes to x
Value minimum(Builder& b, Value x, Value z);  // likewise

// Comparisons make bool.
Value eq(Builder& b, Value x, Value z);
Value ne(Builder& b, Value x, Value z);
Value lt(Builder& b, Value x, Value z);
Value le(Builder& b, Value x, Value z);
Value gt(Builder& b, Value x, Value z);
Value ge(Builder& b, Value x, Value z);

// Of bool.
Value logical_and(Builder& b, Value x, Value z);
Value logical_or(Builder& b, Value x, Value z);
Value logical_xor(Builder& b, Value x, Value z);
Value logical_not(Builder& b, Value x);

// x where the condition (bool) holds, z elsewhere.
Value where(Builder& b, Value condition, Value x, Value z);
// x where the condition is `when`, zero elsewhere. The condition broadcasts to the shape of x.
Value keep_where(Builder& b, Value x, Value condition, bool when = true);

}  // namespace plimsoll::program

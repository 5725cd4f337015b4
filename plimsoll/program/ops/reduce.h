// Ops that make one element of many, over some or all dimensions. What backward reads:
//   nothing               sum, mean (the gradient of sum is a view of dy)
//   a 4-byte index for each result  max, min
//   the input             prod, var
//   input and output      norm2
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

struct ReduceOptions {
  Dims axes = {};         // counted from the end when negative; none: all
  bool keepdims = false;  // the dimensions stay, with size 1
};

Value sum(Builder& b, Value x, const ReduceOptions& options = {});
Value mean(Builder& b, Value x, const ReduceOptions& options = {});
Value max(Builder& b, Value x, const ReduceOptions& options = {});  // the gradient goes to the first of equals
Value min(Builder& b, Value x, const ReduceOptions& options = {});  // likewise
Value prod(Builder& b, Value x, const ReduceOptions& options = {});
Value norm2(Builder& b, Value x, const ReduceOptions& options = {});  // square root of the sum of squares

// The mean square distance from the mean; the sum is divided by the count less `correction`.
Value var(Builder& b, Value x, const ReduceOptions& options = {}, int correction = 1);

// Sums over what broadcasting repeats, so that the result has this shape, which must broadcast to that of x. x itself
// when it has the shape.
Value sum_to(Builder& b, Value x, Dims shape);

}  // namespace plimsoll::program

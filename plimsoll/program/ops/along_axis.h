// Ops along one dimension, counted from the end when negative. What backward reads: the indices that top_k made;
// nothing for cumsum. argmax and argmin make integers and have no gradient.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// The place of the largest, or smallest, element: the first of equals, as i64.
Value argmax(Builder& b, Value x, int axis, bool keepdims = false);
Value argmin(Builder& b, Value x, int axis, bool keepdims = false);

struct CumsumOptions {
  bool exclusive = false;  // without the element itself
  bool reverse = false;    // from the last element on
};
Value cumsum(Builder& b, Value x, int axis, const CumsumOptions& options = {});

struct TopK {
  Value values;
  Value indices;  // i64, along the axis
};
// The k largest elements, the largest first (or smallest), and where they stand. Of equals the first come first.
TopK top_k(Builder& b, Value x, Dim k, int axis = -1, bool largest = true);

}  // namespace plimsoll::program

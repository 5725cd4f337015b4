// Ops that take or put elements where integers of another operand say. Their backward pass reads those integers and
// nothing else. An index counts from the end when negative, but for embedding and one_hot; an index that is out of
// range is an error when the program runs, told with its place.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// Slices of x along `axis`: x[..,n,..] and index[i,j] make [..,i,j,..].
Value gather(Builder& b, Value x, Value index, int axis = 0);

// Rows of w[rows,width]: index[i,j] makes [i,j,width]. The gradient of w is dense; the row `padding`, if not -1, gets
// none.
Value embedding(Builder& b, Value w, Value index, int64_t padding = -1);

// Single elements: x and index have the same rank; y[i,j] = x[index[i,j],j] for axis 0.
Value gather_elements(Builder& b, Value x, Value index, int axis = 0);

// x with elements replaced, or added to: y[index[i,j],j] = updates[i,j] for axis 0. Where an index stands twice, the
// last update counts when replacing, all when adding.
Value scatter_elements(Builder& b, Value x, Value index, Value updates, int axis = 0);
Value scatter_add(Builder& b, Value x, Value index, Value updates, int axis = 0);

// 1 at the index and 0 elsewhere, along a new last dimension.
Value one_hot(Builder& b, Value index, Dim depth, DType dtype = DType::f32);

}  // namespace plimsoll::program

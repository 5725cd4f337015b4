// Ops that change how values are seen, not what they are: views wherever the layout allows, copies where it does not.
// Their gradients read nothing. (Pieces of values are in slice.h.)
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// The same elements in row-major order under another shape of as many elements. One size may be -1: what is left.
Value reshape(Builder& b, Value x, const Dims& shape);

// Dimension i of the result is dimension axes[i] of x.
Value transpose(Builder& b, Value x, const Dims& axes);

// x as it broadcasts to this shape: a view in which repeated elements stand once.
Value expand(Builder& b, Value x, const Dims& shape);

// Reshapes by another name.
Value squeeze(Builder& b, Value x, const Dims& axes = {});  // drops these dimensions of 1; none named: all of them
Value unsqueeze(Builder& b, Value x, const Dims& axes);     // puts in dimensions of 1, at these places of the result
Value flatten(Builder& b, Value x, int axis = 1);           // two dimensions: those before `axis` and the others

}  // namespace plimsoll::program

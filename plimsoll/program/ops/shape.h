// Ops that change how values are seen, not what they are: views wherever the layout allows, copies where it does not.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// The same elements in row-major order under another shape of as many elements.
Value reshape(Builder& b, Value x, const Dims& shape);

// Dimension i of the result is dimension axes[i] of x.
Value transpose(Builder& b, Value x, const Dims& axes);

}  // namespace plimsoll::program

// The fully connected layer.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// x[..,in] times the transpose of w[out,in], plus bias[out] where given: [..,out]. The gradient of w reads x, that of
// x reads w, that of the bias neither; those of w and the bias are made by one op.
Value linear(Builder& b, Value x, Value w, Value bias = {});

}  // namespace plimsoll::program

// Softmax and its logarithm along one dimension.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// exp(x) over the sum of exp(x) along `axis`; may run in place. Backward reads the output only.
Value softmax(Builder& b, Value x, int axis = -1);
Value log_softmax(Builder& b, Value x, int axis = -1);

}  // namespace plimsoll::program

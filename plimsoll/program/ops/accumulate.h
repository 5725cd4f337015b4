// Sums that are kept from one run of a program to the next: gradients of a batch that is taken in parts.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// sum + x, in the storage of `sum`; both of one type.
Value accumulate(Builder& b, Value sum, Value x);

// Zeros in the storage of x.
Value clear(Builder& b, Value x);

}  // namespace plimsoll::program

// Element-wise ops of two operands.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// Operands of one type. Also what sums of gradients are made of.
Value add(Builder& b, Value x, Value z);

}  // namespace plimsoll::program

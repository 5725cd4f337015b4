// Values made from nothing.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// Every element is `value` (rounded down to a whole number for integers; not zero is true for bool).
Value fill(Builder& b, double value, const Type& type);

}  // namespace plimsoll::program

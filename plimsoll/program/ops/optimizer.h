// Optimizer updates: ops that overwrite parameters and optimizer state with their new content.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// w - rate * dw, in the storage of w. `rate` is a value of one element, so that schedules do not change the program.
Value sgd(Builder& b, Value w, Value dw, Value rate);

}  // namespace plimsoll::program

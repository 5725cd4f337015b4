// How values lie in memory, as an op: only kernels know what it means.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// The same elements. Where a device keeps values in layouts of its own (kernels/blocking.h), it stands where one layout
// becomes another, so that the copy is an op that plans see and count.
Value reorder(Builder& b, Value x);

}  // namespace plimsoll::program

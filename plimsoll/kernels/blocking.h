// Which values of a program lie in blocks of channels (see Tensor), so that convolutions and what stands between them
// need not copy. A blocked value has the bytes of a plain one, and only kernels know: programs, plans and executors see
// no difference but the `reorder` ops where one layout becomes the other.
//
// Values that the caller sees (inputs, parameters, state, outputs), views and what has views stay in row-major order.
#pragma once

#include <vector>

#include "plimsoll/kernels/kernel.h"
#include "plimsoll/program/program.h"

namespace plimsoll::kernels {

struct Blocked {
  program::Program program;  // the values of the given program keep their places
  std::vector<bool> values;  // which are blocked
  std::vector<bool> ops;     // whether an op of rule `together` works on blocks
};

// Pure. Blocks a value when convolutions gain more bytes by it than reorders cost.
Blocked block_channels(program::Program program, const KernelTable& table);

// All values in row-major order.
Blocked without_blocks(program::Program program);

}  // namespace plimsoll::kernels

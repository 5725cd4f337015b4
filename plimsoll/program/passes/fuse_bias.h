// A bias that stands as an addition of its own, put into the product before it.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// conv, conv_transpose and linear without a bias, and the product with a transposed matrix, followed by the addition of
// one number for each channel (the last dimension of linear), take it as their bias. Equal to rounding. The results
// have gradients, so this can be done before autodiff.
Program fuse_bias(Program program);

}  // namespace plimsoll::program

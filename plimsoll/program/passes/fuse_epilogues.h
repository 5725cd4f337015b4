// Residual additions and ReLUs, put into the product before them.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// conv, linear and matmul take the addition of a value that is there before them, then a ReLU, as an epilogue
// (ops/epilogue.h); the product becomes the op that writes the final result. For whole steps: the new ops have no
// gradients. Values are equal. A ReLU whose mask is kept is left alone where making the mask at the product, not after
// it, would raise the peak: where the product is the last to read an operand, or other work stands between.
Program fuse_epilogues(Program program);

}  // namespace plimsoll::program

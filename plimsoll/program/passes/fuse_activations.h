// Activations that exporters take apart, put together again.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// x * Phi(x) by erf becomes `gelu`, its approximation by tanh `gelu_tanh`, x * sigmoid(x) `silu`, whatever the order of
// the factors and the way the constants are written. Equal to rounding.
Program fuse_activations(Program program);

}  // namespace plimsoll::program

// The passes in their order. All are pure functions from a program to one that computes the same outputs, parameters
// and state, never with a larger peak; each has a header of its own that says what it does.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// Folds views and constants, puts activations, norms and attention together, takes biases into products, and drops what
// is computed twice or for nothing, until nothing changes. What it makes has gradients: run it on a model before
// autodiff, so that the backward pass is that of the single ops.
Program simplify(Program program);

// Does this to a whole step, where some of it finds nothing left to do, and fuses epilogues, which have no gradients.
Program optimize(Program step);

}  // namespace plimsoll::program

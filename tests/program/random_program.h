// Small programs made at random, full of what passes look for: constants, views of views, things computed twice or for
// nothing, products with something after them.
#pragma once

#include <cstdint>

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// A forward program, or a training step by sgd. The same for the same seed.
Program random_program(uint64_t seed, bool training);

}  // namespace plimsoll::program

// Dead code elimination.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// Without the ops, and optional results of ops, that nothing depends on. What the step is for stays: its outputs and
// what it writes into parameters and state. So does everything that comes in, read or not.
Program eliminate_dead_code(Program program);

}  // namespace plimsoll::program

// The order of ops: results that are wanted much later need not lie about until then.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// Each op right before the first that reads a result of it, unless operands that nothing else wants any more would have
// to stay for it that are as large as what it makes. Values, and what the step computes, are the same. The program is
// bound.
Program sink_ops(Program program);

}  // namespace plimsoll::program

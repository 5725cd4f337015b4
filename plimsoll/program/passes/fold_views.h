// View folding.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// A reshape of a reshape, a transpose of a transpose and an expand of an expand become one; readers of a view that
// shows its operand as it is (identity, a cast to the same dtype, a reshape to the same shape) read the operand. Views
// keep their place in memory, and copies their number.
Program fold_views(Program program);

}  // namespace plimsoll::program

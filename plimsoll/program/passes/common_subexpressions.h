// Common subexpression elimination.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// An op that computes again what is still in memory is dropped, and its readers read the earlier value. What would have
// to be kept longer for that is computed again, as written: this pass never raises the peak.
Program eliminate_common_subexpressions(Program program);

}  // namespace plimsoll::program

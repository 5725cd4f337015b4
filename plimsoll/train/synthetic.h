// Data made up for a program, so that it can run without any: numbers around zero, and indices that are in range for
// what they index. The same seed gives the same data.
#pragma once

#include <cstdint>

#include "plimsoll/run/executor.h"

namespace plimsoll::train {

// How many values an index that this input holds may have, by the ops that read it: rows of a table, classes of logits.
// 2 when no op says.
int64_t index_range(const program::Program& program, program::Value input);

// Fills every input of the program.
void fill_inputs(run::Executor& executor, uint64_t seed);

}  // namespace plimsoll::train

// Parameters of which each of several ranks holds its shard alone. A parameter is gathered ahead of the ops that read
// it, into memory that is free again after them, and once more for the backward pass.
#pragma once

#include <optional>

#include "plimsoll/program/train_step.h"

namespace plimsoll::program {

// The same step, or its part, with those parameters that is_spread names (gradient_sums.h) as shards: they keep their
// names and places. Ops near each other read one gathered copy: what else is read between them is less than the
// parameter itself. Each copy is gathered while the one before is in use, where options.overlap says so.
Program spread_parameters(Program step, const TrainOptions& options);

// The shape of a parameter that the program holds a shard of; nothing for others, and for those that it does not read.
std::optional<Dims> whole_shape(const Program& program, Value parameter);

}  // namespace plimsoll::program

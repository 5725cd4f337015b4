// Optimizer updates whose state lies in the spill file: `adam_spilled`, `adamw_spilled`, `momentum_spilled`,
// `lion_spilled`. They mean what the plain ops mean and take the same operands, but those that are state take no memory
// of the device: the kernel brings them in piece by piece, updates them and takes them back while the next piece is on
// its way. What is in the file stays there from step to step, in the slot that the attribute `slot` names.
#pragma once

#include "plimsoll/program/builder.h"
#include "plimsoll/program/split_step.h"

namespace plimsoll::program {

// The state of a program that lies in the spill file.
std::vector<Value> spilled_values(const Program& program);

// Puts the optimizer state of parameters of at least `least_bytes` into the file. Pure; the program is bound where that
// matters, in the parameters.
Program spill_state(Program step, int64_t least_bytes);
// Of both programs of a step in parts: the part does not have it any more.
SplitStep spill_state(SplitStep split, int64_t least_bytes);

}  // namespace plimsoll::program

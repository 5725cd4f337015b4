// Runs whole programs eagerly, op by op: what the executor does in a plan's arena, in blocks of a pool. The same
// kernels in the same order, so the same bits.
#pragma once

#include <map>
#include <string>

#include "plimsoll/run/eager/context.h"

namespace plimsoll::eager {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// `given` has a tensor for every input, parameter and state value, contiguous; those that the program overwrites hold
// their new content afterwards. Returns the program's outputs. ArgumentError for one that is missing or has another
// type. When it fails, updates that were made stay.
NamedTensors run(Context& context, const program::Program& program, const NamedTensors& given);

}  // namespace plimsoll::eager

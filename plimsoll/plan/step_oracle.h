// Checks the plan of a step, whole or in micro-batches: each program by its own oracle (oracle.h), and that together
// they are one step. Shares no code with the search.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/plan/micro_batches.h"

namespace plimsoll::plan {

// What is wrong, in one sentence; nothing when all holds: the sizes make up the batch, there is a program for each that
// there is and one for the update, each of them holds, they keep parameters and state at the same places, and the arena
// and the time are as stated.
std::optional<std::string> find_fault(const StepPlan& step, int64_t batch);

}  // namespace plimsoll::plan

// Checks a plan by acting it out on the bytes of the arena. Shares no code with the search, liveness, placement or the
// rewriting of programs, so that a mistake there cannot hide here: it knows only what plan.h says a plan means.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/plan/plan.h"

namespace plimsoll::plan {

// What is wrong with a plan, in one sentence that names the step, its op and the tensor; nothing when all holds:
// it is of this program; everything lies inside the arena, which is no larger than needed and within the budget; every
// op that does work runs once, and again only from operands of the same content; nothing is read that was not written
// or has been written over since; results lie apart from what their op still reads unless it may work in place; nothing
// is written where a copy reads, or read or written where it writes, before it is done; what is fetched was spilled,
// and nothing else was since where it lies in the file; what comes in and what the caller reads is there at the end.
std::optional<std::string> find_fault(const Plan& plan, const kernels::Lowered& lowered);

}  // namespace plimsoll::plan

// From a schedule to the steps of a plan, before anything has a place in the arena. Inside the plan room.
#pragma once

#include <vector>

#include "plimsoll/plan/plan.h"
#include "plimsoll/plan/schedule.h"

namespace plimsoll::plan {

// What is spilled has a place in the file. Copies stand before the step that they start before: first those to the
// file, whose memory may be wanted by what comes from there.
std::vector<Step> plan_steps(const program::Program& program, const StepGraph& graph, const Schedule& schedule);

// The bytes that the steps take of the file.
int64_t file_bytes(const program::Program& program, const std::vector<Step>& steps);

}  // namespace plimsoll::plan

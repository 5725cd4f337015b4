// When the copies of a schedule start and are waited for. A spill starts as soon as its result is made, and its memory
// stays taken until the copy is done; a fetch takes memory from its start. Where there is room under the limit, both go
// on beside other steps; where there is none, the step waits. The disk does one copy after the other.
#pragma once

#include <cstdint>

#include "plimsoll/plan/schedule.h"

namespace plimsoll::plan {

// Sets the times of `copies`, and adds what they hold to `live_bytes` and what they cost to `seconds`. Comes with each
// fetch starting where it is wanted, and after the spill of the same storage.
void overlap_copies(const StepGraph& graph, int64_t limit_bytes, Schedule& schedule);

}  // namespace plimsoll::plan

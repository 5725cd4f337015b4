// What no plan can beat, whatever it recomputes or spills: proofs for refusals and for the gap that a plan may have.
#pragma once

#include <cstdint>

#include "plimsoll/plan/step_graph.h"

namespace plimsoll::plan {

struct MemoryBound {
  int64_t bytes = 0;
  int32_t node = 0;  // that needs them
};

// Bytes that must be alive at once: what comes in, what one node works on, and what cannot be made again around it.
MemoryBound least_bytes(const StepGraph& graph);

// Time that a plan within the limit must take: each node once, and again as much as frees the peak. An op
// that is given up there takes at least its own time again.
double least_seconds(const StepGraph& graph, int64_t limit_bytes);

}  // namespace plimsoll::plan

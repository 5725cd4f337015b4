// Where in one arena the buffers of a step lie: what came in at the bottom, for it stays all the time, the others
// packed above it. Estimates and executors ask the same question here, so they get the same answer to the byte.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/plan/liveness.h"

namespace plimsoll::plan {

struct PlacementOptions {
  int64_t alignment = 64;  // of offsets and sizes in the arena: a cache line, the widest vector
  // Nodes of the search for a smaller arena, when the quick packings are above the live peak.
  int64_t search_nodes = 2000;
  // An arena of so many bytes will do: the search ends when one is found. The placement may still be larger.
  std::optional<int64_t> enough_bytes = {};
};

struct Placement {
  std::vector<int64_t> offsets;  // of each buffer; 0 for those without bytes
  int64_t arena_bytes = 0;
  bool optimal = false;  // no smaller arena exists for these buffers in this order of ops
};

// The same liveness and options give the same placement. ArgumentError when the bytes do not fit in 63 bits.
Placement place(const Liveness& liveness, const PlacementOptions& options = {});

}  // namespace plimsoll::plan

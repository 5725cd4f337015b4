// The simplest plan of a prepared program: its ops in their order, every buffer at an offset in one arena.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/kernels/prepare.h"
#include "plimsoll/plan/liveness.h"
#include "plimsoll/plan/placement.h"

namespace plimsoll::plan {

struct MemoryPlan {
  Liveness liveness;
  Placement placement;

  // Where the first element of a value lies in the arena. The value must be used in the program.
  int64_t offset_of(const program::Program& program, program::Value value) const;
  // The storage of an owner that is used in the program.
  const Storage& storage_of(program::Value owner) const;
  // The scratch of an op; null when it has none.
  const Storage* scratch_of(int32_t op) const;
  // Where the scratch of an op lies; 0 when it has none.
  int64_t scratch_offset(int32_t op) const;
};

// `enough_bytes`: see PlacementOptions.
MemoryPlan plan_memory(const kernels::Lowered& lowered, std::optional<int64_t> enough_bytes = {});

}  // namespace plimsoll::plan

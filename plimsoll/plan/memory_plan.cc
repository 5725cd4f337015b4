#include "plimsoll/plan/memory_plan.h"

#include <algorithm>

namespace plimsoll::plan {
namespace {

using program::Program;
using program::Value;

// Storages with owners stand first, in the order of these.
bool comes_before(const Storage& storage, Value owner) { return storage.owner && storage.owner.index < owner.index; }

}  // namespace

const Storage& MemoryPlan::storage_of(Value owner) const {
  return *std::lower_bound(liveness.storages.begin(), liveness.storages.end(), owner, comes_before);
}

const Storage* MemoryPlan::scratch_of(int32_t op) const {
  const auto found =
      std::lower_bound(liveness.storages.begin(), liveness.storages.end(), op,
                       [](const Storage& storage, int32_t time) { return storage.owner || storage.first < time; });
  return found == liveness.storages.end() || found->first != op ? nullptr : &*found;
}

int64_t MemoryPlan::offset_of(const Program& program, Value value) const {
  const program::ValueInfo& info = program[value];
  const int64_t inside = program::layout(info).offset.constant() * element_bytes(info.type.dtype);
  return placement.offsets[static_cast<size_t>(storage_of(info.storage).buffer)] + inside;
}

int64_t MemoryPlan::scratch_offset(int32_t op) const {
  const Storage* scratch = scratch_of(op);
  return scratch == nullptr ? 0 : placement.offsets[static_cast<size_t>(scratch->buffer)];
}

MemoryPlan plan_memory(const kernels::Lowered& lowered, std::optional<int64_t> enough_bytes) {
  const std::vector<int64_t> scratch = lowered.scratch_bytes();
  MemoryPlan plan;
  plan.liveness = find_liveness(lowered.program, {.scratch_bytes = scratch});
  plan.placement = place(plan.liveness, {.alignment = lowered.alignment, .enough_bytes = enough_bytes});
  return plan;
}

}  // namespace plimsoll::plan

#include "plimsoll/memory/replay/pool_policy.h"

#include <utility>

namespace plimsoll::replay {

PoolPolicy::PoolPolicy(const Device& device)
    : pages_(device.page_bytes, device.capacity.bytes), pool_(pages_, device.capacity, recorder_) {}

PoolPolicy::~PoolPolicy() {
  for (const Block& block : blocks_) pool_.free(block);
}

void PoolPolicy::allocate(uint32_t slot, int64_t bytes, int16_t stream) {
  if (slot >= blocks_.size()) blocks_.resize(slot + 1);
  blocks_[slot] = pool_.allocate({.bytes = bytes, .stream = stream});
}

void PoolPolicy::free(uint32_t slot) { pool_.free(std::exchange(blocks_[slot], {})); }

PolicyStats PoolPolicy::stats() const {
  const PoolStats stats = pool_.stats();
  return {.reserved_peak_bytes = stats.reserved_peak_bytes,
          .pages_committed = stats.pages_committed,
          .pages_remapped = stats.pages_remapped,
          .remapping_allocations = stats.remapping_allocations};
}

}  // namespace plimsoll::replay

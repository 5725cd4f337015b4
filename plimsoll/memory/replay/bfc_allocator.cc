#include "plimsoll/memory/replay/bfc_allocator.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"

namespace plimsoll::replay {
namespace {

constexpr int64_t kRounding = 256;
constexpr int64_t kFirstRegion = 2 * kMiB;
constexpr int64_t kMostPadding = 128 * kMiB;

}  // namespace

BfcAllocator::BfcAllocator(const Device& device)
    : SegmentPolicy(device, kRounding),
      region_bytes_(align_up(std::min(device.capacity.bytes, kFirstRegion), kRounding)) {}

uint32_t BfcAllocator::shelf_for(int64_t /*bytes*/, int16_t /*stream*/) const { return 0; }

bool BfcAllocator::should_cut(int64_t bytes, int64_t remaining) const {
  return remaining >= bytes || remaining >= kMostPadding;
}

int64_t BfcAllocator::choose_segment(int64_t bytes, int64_t available) {
  available = align_down(available, kRounding);
  if (bytes > available) return bytes;
  const bool grow_later = bytes <= region_bytes_;
  while (region_bytes_ < bytes) region_bytes_ *= 2;
  const int64_t region = std::min(region_bytes_, available);
  if (grow_later) region_bytes_ *= 2;
  return region;
}

}  // namespace plimsoll::replay

#include "plimsoll/memory/replay/torch_allocator.h"

#include "plimsoll/base/bytes.h"

namespace plimsoll::replay {
namespace {

constexpr int64_t kRounding = 512;
constexpr int64_t kMostSmall = kMiB;  // the largest request that shares small segments
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;
constexpr int64_t kLeastOwnSegment = 10 * kMiB;  // the smallest request with a segment of its own
constexpr int64_t kSegmentRounding = 2 * kMiB;

bool is_small(int64_t bytes) { return bytes <= kMostSmall; }

}  // namespace

TorchAllocator::TorchAllocator(const Device& device) : SegmentPolicy(device, kRounding) {}

uint32_t TorchAllocator::shelf_for(int64_t bytes, int16_t stream) const {
  return 2 * static_cast<uint32_t>(static_cast<uint16_t>(stream)) + (is_small(bytes) ? 0 : 1);
}

bool TorchAllocator::should_cut(int64_t bytes, int64_t remaining) const {
  return is_small(bytes) ? remaining >= kRounding : remaining > kMostSmall;
}

int64_t TorchAllocator::choose_segment(int64_t bytes, int64_t /*available*/) {
  if (is_small(bytes)) return kSmallSegment;
  if (bytes < kLeastOwnSegment) return kLargeSegment;
  return align_up(bytes, kSegmentRounding);
}

}  // namespace plimsoll::replay

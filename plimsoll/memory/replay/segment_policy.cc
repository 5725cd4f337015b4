#include "plimsoll/memory/replay/segment_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"

namespace plimsoll::replay {

void SegmentPolicy::allocate(uint32_t slot, int64_t bytes, int16_t stream) {
  const int64_t rounded = align_up(bytes, rounding_);
  const uint32_t shelf = shelf_for(rounded, stream);
  SegmentHeap::BlockId block = heap_.take_best_fit(shelf, rounded);
  if (block == SegmentHeap::kNone) block = allocate_segment(shelf, rounded);
  if (should_cut(rounded, heap_.bytes(block) - rounded)) heap_.cut(block, rounded);
  if (slot >= blocks_.size()) blocks_.resize(slot + 1);
  blocks_[slot] = block;
}

SegmentHeap::BlockId SegmentPolicy::allocate_segment(uint32_t shelf, int64_t bytes) {
  int64_t segment_bytes = choose_segment(bytes, available_bytes());
  if (segment_bytes > available_bytes()) {
    const int64_t released = heap_.release_free_segments();
    segment_bytes = choose_segment(bytes, available_bytes());
    if (segment_bytes > available_bytes()) throw ResourceExhausted(report(bytes, segment_bytes, released));
  }
  const SegmentHeap::BlockId block = heap_.add_segment(shelf, segment_bytes);
  stats_.reserved_peak_bytes = std::max(stats_.reserved_peak_bytes, heap_.segment_bytes());
  stats_.pages_committed += align_up(segment_bytes, device_.page_bytes) / device_.page_bytes;
  return block;
}

OomReport SegmentPolicy::report(int64_t bytes, int64_t segment_bytes, int64_t released_bytes) const {
  OomReport report;
  report.requested_bytes = bytes;
  report.device = "simulated";
  report.allocator = name();
  report.budget = device_.capacity;
  report.reserved_bytes = heap_.segment_bytes();
  report.largest_free_bytes = heap_.largest_free_bytes();
  report.tried = {fmt::format("free segments given back to the device: {}", format_bytes(released_bytes))};
  const int64_t enough = heap_.segment_bytes() + segment_bytes;
  report.help = {fmt::format("this request needs a capacity of {} bytes", enough)};
  return report;
}

}  // namespace plimsoll::replay

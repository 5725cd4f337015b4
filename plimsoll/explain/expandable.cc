#include "plimsoll/explain/expandable.h"

#include <algorithm>
#include <iterator>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/oom.h"

namespace plimsoll::explain {

void ExpandableSegments::allocate(uint32_t slot, int64_t bytes, int16_t stream) {
  bytes = align_up(bytes, 512);
  const bool small = bytes <= kMiB;
  Range& range = ranges_[{stream, small}];
  range.page_bytes = small ? 2 * kMiB : 20 * kMiB;
  const auto fit = range.free_sizes.lower_bound({bytes, 0});
  const bool found = fit != range.free_sizes.end();
  const int64_t address = found ? fit->second : grow(range, bytes);
  const int64_t available = range.free.at(address);
  take_free(range, address, available);
  if (available > bytes) add_free(range, address + bytes, available - bytes);
  if (slot >= blocks_.size()) blocks_.resize(slot + 1);
  blocks_[slot] = {&range, address, bytes};
}

void ExpandableSegments::free(uint32_t slot) {
  const Block& block = blocks_[slot];
  add_free(*block.range, block.address, block.bytes);
}

// Maps pages behind the range until `bytes` are free at its end, and returns where that free piece begins.
int64_t ExpandableSegments::grow(Range& range, int64_t bytes) {
  int64_t begin = range.end;
  if (!range.free.empty()) {
    const auto last = std::prev(range.free.end());
    if (last->first + last->second == range.end) begin = last->first;
  }
  const int64_t more = align_up(begin + bytes - range.end, range.page_bytes);
  if (reserved_bytes_ + more > device_.capacity.bytes) {
    OomReport report;
    report.requested_bytes = bytes;
    report.allocator = "expandable";
    report.budget = device_.capacity;
    report.reserved_bytes = reserved_bytes_;
    throw ResourceExhausted(std::move(report));
  }
  add_free(range, range.end, more);
  range.end += more;
  reserved_bytes_ += more;
  stats_.reserved_peak_bytes = std::max(stats_.reserved_peak_bytes, reserved_bytes_);
  return begin;
}

void ExpandableSegments::add_free(Range& range, int64_t address, int64_t bytes) {
  auto next = range.free.lower_bound(address);
  if (next != range.free.end() && next->first == address + bytes) {
    bytes += next->second;
    take_free(range, next->first, next->second);
    next = range.free.lower_bound(address);
  }
  if (next != range.free.begin()) {
    const auto [before, size] = *std::prev(next);
    if (before + size == address) {
      take_free(range, before, size);
      address = before;
      bytes += size;
    }
  }
  range.free[address] = bytes;
  range.free_sizes.insert({bytes, address});
}

void ExpandableSegments::take_free(Range& range, int64_t address, int64_t bytes) {
  range.free.erase(address);
  range.free_sizes.erase({bytes, address});
}

}  // namespace plimsoll::explain

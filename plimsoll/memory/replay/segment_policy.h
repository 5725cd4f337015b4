// An allocator that cuts segments of the device into blocks and gives free segments back only when the device is full.
// A subclass has the rules: how requests are rounded, which free blocks may serve them, when a block is cut, how large
// the next segment is.
#pragma once

#include <vector>

#include "plimsoll/memory/replay/policy.h"
#include "plimsoll/memory/replay/segment_heap.h"

namespace plimsoll::replay {

class SegmentPolicy : public Policy {
 public:
  SegmentPolicy(const Device& device, int64_t rounding) : device_(device), rounding_(rounding) {}

  void allocate(uint32_t slot, int64_t bytes, int16_t stream) final;
  void free(uint32_t slot) final { heap_.give_back(blocks_[slot]); }
  PolicyStats stats() const final { return stats_; }

 private:
  // The rules, for a request that is rounded already.
  virtual uint32_t shelf_for(int64_t bytes, int16_t stream) const = 0;
  virtual bool should_cut(int64_t bytes, int64_t remaining) const = 0;
  // Bytes of the next segment; more than `available` means that the device has not enough.
  virtual int64_t choose_segment(int64_t bytes, int64_t available) = 0;

  SegmentHeap::BlockId allocate_segment(uint32_t shelf, int64_t bytes);
  int64_t available_bytes() const { return device_.capacity.bytes - heap_.segment_bytes(); }
  OomReport report(int64_t bytes, int64_t segment_bytes, int64_t released_bytes) const;

  Device device_;
  int64_t rounding_;
  SegmentHeap heap_;
  std::vector<SegmentHeap::BlockId> blocks_;  // by slot
  PolicyStats stats_;
};

}  // namespace plimsoll::replay

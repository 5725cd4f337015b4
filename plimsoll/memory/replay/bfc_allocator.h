// The published rules of TensorFlow's best fit with coalescing (BFC), as its GPU devices run it with memory growth
// allowed. Requests are rounded to 256 bytes, and streams share everything. A chunk is cut when it is at least twice
// the request or when 128 MiB or more remain. (TensorFlow's bins only make the search for the best fit shorter.) The
// first region is of 2 MiB, each further one twice the last or the next doubling that holds the request, and the last
// takes what is left of the capacity.
#pragma once

#include "plimsoll/memory/replay/segment_policy.h"

namespace plimsoll::replay {

class BfcAllocator final : public SegmentPolicy {
 public:
  explicit BfcAllocator(const Device& device);
  std::string_view name() const override { return "bfc"; }

 private:
  uint32_t shelf_for(int64_t bytes, int16_t stream) const override;
  bool should_cut(int64_t bytes, int64_t remaining) const override;
  int64_t choose_segment(int64_t bytes, int64_t available) override;

  int64_t region_bytes_;  // of the next region, if the request fits
};

}  // namespace plimsoll::replay

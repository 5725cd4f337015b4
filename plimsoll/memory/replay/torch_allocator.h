// The published rules of PyTorch 2.x's CUDA caching allocator with its default settings. Requests are rounded to 512
// bytes. Up to 1 MiB they share segments of 2 MiB, below 10 MiB segments of 20 MiB, and from there each has its own,
// rounded to 2 MiB. A free block serves only the stream and the size class (up to 1 MiB, above) that it was made for.
// Small blocks are cut when 512 bytes or more remain, large ones when more than 1 MiB does.
#pragma once

#include "plimsoll/memory/replay/segment_policy.h"

namespace plimsoll::replay {

class TorchAllocator final : public SegmentPolicy {
 public:
  explicit TorchAllocator(const Device& device);
  std::string_view name() const override { return "torch"; }

 private:
  uint32_t shelf_for(int64_t bytes, int16_t stream) const override;
  bool should_cut(int64_t bytes, int64_t remaining) const override;
  int64_t choose_segment(int64_t bytes, int64_t available) override;
};

}  // namespace plimsoll::replay

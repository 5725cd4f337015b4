// PyTorch's allocator with expandable segments, to replay traces against: per stream and size class one range of
// addresses that grows at its end, page by page, with best fit inside. Pages are given back only when the device is
// full.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "plimsoll/memory/replay/policy.h"

namespace plimsoll::explain {

class ExpandableSegments final : public replay::Policy {
 public:
  explicit ExpandableSegments(const replay::Device& device) : device_(device) {}

  std::string_view name() const override { return "expandable"; }
  void allocate(uint32_t slot, int64_t bytes, int16_t stream) override;
  void free(uint32_t slot) override;
  replay::PolicyStats stats() const override { return stats_; }

 private:
  struct Range {
    std::map<int64_t, int64_t> free;                   // bytes by address, no two adjacent
    std::set<std::pair<int64_t, int64_t>> free_sizes;  // bytes and address
    int64_t end = 0;
    int64_t page_bytes = 0;
  };
  struct Block {
    Range* range = nullptr;
    int64_t address = 0;
    int64_t bytes = 0;
  };

  static void add_free(Range& range, int64_t address, int64_t bytes);
  static void take_free(Range& range, int64_t address, int64_t bytes);
  int64_t grow(Range& range, int64_t bytes);

  replay::Device device_;
  std::map<std::pair<int16_t, bool>, Range> ranges_;  // by stream and whether small
  std::vector<Block> blocks_;                         // by slot
  replay::PolicyStats stats_;
  int64_t reserved_bytes_ = 0;
};

}  // namespace plimsoll::explain

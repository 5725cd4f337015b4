// Where cudaMalloc puts memory, as an H200 (driver 580) showed it; allocators that take the lowest of equally good
// places depend on it. Addresses come in regions of multiples of 32 MiB, each at the end of the highest gap that has
// room for it and 32 MiB more: later regions lie lower. In regions the lowest hole that is large enough serves a
// request, in units of 2 MiB. A region that is free again is given up. A context leaves two small holes above all else.
//
// Stands alone: the simulated card (python/simcuda) uses it too. Not thread-safe.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace plimsoll::replay {

class DeviceAddresses {
 public:
  // Addresses from `begin` to `end`.
  explicit DeviceAddresses(int64_t begin = 0, int64_t end = int64_t{1} << 46) {
    const int64_t top = (end - kContext) / kRegion * kRegion;
    gaps_[(begin + kRegion - 1) / kRegion * kRegion] = top;
    regions_[top] = kContext;
    holes_[top + kFirstHole.begin] = kFirstHole.bytes;
    holes_[top + kSecondHole.begin] = kSecondHole.bytes;
  }

  // -1 when there is no room.
  int64_t take(int64_t bytes) {
    bytes = rounded(bytes, kUnit);
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second >= bytes) return cut(hole, bytes);
    }
    const int64_t region = take_region(rounded(bytes, kRegion));
    return region < 0 ? -1 : cut(holes_.find(region), bytes);
  }

  void give_back(int64_t address, int64_t bytes) {
    const auto region = std::prev(regions_.upper_bound(address));
    int64_t begin = address, end = address + rounded(bytes, kUnit);
    auto after = holes_.lower_bound(begin);
    if (after != holes_.end() && after->first == end && end < region_end(region)) {
      end += after->second;
      after = holes_.erase(after);
    }
    if (after != holes_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == begin && before->first >= region->first) {
        begin = before->first;
        holes_.erase(before);
      }
    }
    if (begin == region->first && end == region_end(region)) {
      give_up(region);
    } else {
      holes_[begin] = end - begin;
    }
  }

 private:
  using Extents = std::map<int64_t, int64_t>;  // bytes by address; of gaps_ the end by address

  struct ContextHole {
    int64_t begin, bytes;
  };
  static constexpr int64_t kUnit = int64_t{2} << 20;
  static constexpr int64_t kRegion = int64_t{32} << 20;
  static constexpr int64_t kContext = 4 * kRegion;
  static constexpr ContextHole kFirstHole = {30 << 20, 2 << 20};
  static constexpr ContextHole kSecondHole = {104 << 20, 24 << 20};

  static int64_t rounded(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }
  static int64_t region_end(Extents::const_iterator region) { return region->first + region->second; }

  int64_t cut(Extents::iterator hole, int64_t bytes) {
    const auto [address, available] = *hole;
    holes_.erase(hole);
    if (available > bytes) holes_[address + bytes] = available - bytes;
    return address;
  }

  int64_t take_region(int64_t bytes) {
    for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
      if (gap->second - gap->first < bytes + kRegion) continue;
      const int64_t region = gap->second -= bytes;
      if (gap->second == gap->first) gaps_.erase(std::next(gap).base());
      regions_[region] = holes_[region] = bytes;
      return region;
    }
    return -1;
  }

  void give_up(Extents::iterator region) {
    int64_t begin = region->first, end = region_end(region);
    regions_.erase(region);
    auto after = gaps_.lower_bound(begin);
    if (after != gaps_.end() && after->first == end) {
      end = after->second;
      after = gaps_.erase(after);
    }
    if (after != gaps_.begin() && std::prev(after)->second == begin) begin = std::prev(after)->first;
    gaps_[begin] = end;
  }

  Extents gaps_;     // between regions: end by begin
  Extents regions_;  // disjoint, never joined
  Extents holes_;    // in regions; adjacent ones are joined within a region
};

}  // namespace plimsoll::replay

// Which bytes are taken when, as an index of rectangles in time and space that never overlap. Asked for what lies in a
// window it looks only where something can, so that a small window among a million rectangles is answered in
// microseconds.
//
// Rectangles are kept by the power of two that their lifetime reaches, and within it in cells of that much time by
// their start. All rectangles of a cell are alive at its last moment, so they form one stack in which offsets are
// looked up by bisection; a window meets few cells of those that live longer than it does.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plimsoll/pack/sorted_blocks.h"

namespace plimsoll::pack {

// Bytes [low, high) during [first, end).
struct Area {
  int64_t first = 0;
  int64_t end = 0;
  int64_t low = 0;
  int64_t high = 0;
};

struct Tenant {
  Area area;
  int32_t id = 0;  // the caller's
};

class Occupancy {
 public:
  explicit Occupancy(std::span<const Tenant> tenants = {});

  // The area must be free / taken exactly so.
  void insert(const Tenant& tenant);
  void erase(const Tenant& tenant);

  // Calls `accept` for each tenant that reaches into the window, the long-lived ones first, until it returns false or
  // more than `most_cells` had to be looked at. Whether it came to the end.
  bool all_within(const Area& window, int64_t most_cells, const std::function<bool(const Tenant&)>& accept) const;

  // Whether nothing reaches into the window; false also when that took more than `most_cells`.
  bool is_free(const Area& window, int64_t most_cells = INT64_MAX) const;

  int64_t highest() const;                                  // end of a tenant, 0 without any
  std::vector<Tenant> reaching_above(int64_t limit) const;  // whose end is higher

 private:
  struct Entry {
    Area area;
    int32_t id = 0;
    int32_t level = 0;  // the lifetime is at least 2^level, and less than twice that

    int64_t cell() const { return area.first >> level; }
    bool operator<(const Entry& other) const {
      if (level != other.level) return level < other.level;
      if (cell() != other.cell()) return cell() < other.cell();
      return area.low < other.area.low;
    }
  };
  struct Top {
    explicit Top(std::span<const Entry> entries);
    int64_t high = 0;
  };

  static Entry entry_of(const Tenant& tenant);
  bool all_of_level(int32_t level, const Area& window, int64_t& cells_left,
                    const std::function<bool(const Tenant&)>& accept) const;

  SortedBlocks<Entry, Top> entries_;
  std::array<int64_t, 64> count_by_level_{};
};

}  // namespace plimsoll::pack

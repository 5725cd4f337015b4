// Buffers and where they lie now, found by id and, through an index, by time and offset.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/occupancy.h"
#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

class Arrangement {
 public:
  static constexpr int64_t kNowhere = -1;

  // An offset for each buffer; ids are the indices. They must not collide.
  Arrangement(std::vector<Buffer> buffers, std::vector<int64_t> offsets);

  // Ids that hold no buffer have one of 0 bytes, which lies nowhere.
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  const Buffer& buffer(int32_t id) const { return buffers_[id]; }
  int64_t offset(int32_t id) const { return offsets_[id]; }
  const Occupancy& occupancy() const { return occupancy_; }
  int32_t size() const { return static_cast<int32_t>(buffers_.size()); }

  // Only while it lies nowhere. An id of `size` makes room for one more.
  void set(int32_t id, Buffer buffer);

  // Where `is_free` has been seen to hold / wherever it lies.
  void put(int32_t id, int64_t offset);
  void take(int32_t id);

  // All of them anew.
  void put_all(std::vector<int64_t> offsets);

  // False also when that took looking at more than `most_cells`.
  bool is_free(const Buffer& buffer, int64_t offset, int64_t most_cells = INT64_MAX) const;

 private:
  std::vector<Buffer> buffers_;
  std::vector<int64_t> offsets_;
  Occupancy occupancy_;
};

// What a buffer takes at an offset, piece by piece.
template <typename Visit>
void for_each_area(const Buffer& buffer, int64_t offset, Visit visit) {
  for_each_piece(buffer, [&](int64_t first, int64_t end) { visit(Area{first, end, offset, offset + buffer.bytes}); });
}

}  // namespace plimsoll::pack

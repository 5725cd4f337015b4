// The free extents of one address range, in address order, neighbours merged. Units are granules (Pool's smallest
// block), so that sizes fit 32 bits and the best fit is one pass over a flat array: with the hundreds of free extents
// that a training run has, that is faster than any tree. Beyond that an index by size takes over. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/memory/free_index.h"

namespace plimsoll {

class Extents {
 public:
  static constexpr int64_t kNone = -1;
  static constexpr int64_t kLargest =
      INT32_MAX - 1;  // extents beyond that stay apart: half a tebibyte of 256 B granules

  size_t count() const { return offsets_.size(); }
  int64_t offset(size_t index) const { return offsets_[index]; }
  int64_t size(size_t index) const { return sizes_[index]; }
  int64_t largest() const;

  // Adds [offset, offset + size), none of which is free yet; at most kLargest.
  void insert(int64_t offset, int64_t size);

  // The offset of the smallest extent of at least `size`, the lowest of equals; kNone when there is none.
  int64_t best_fit(int64_t size) const;

  bool contains(int64_t offset, int64_t size) const;

  // Takes out [offset, offset + size), all of which must be free.
  void carve(int64_t offset, int64_t size);

  // Moves everything into `other`, a set over the same range.
  void drain_into(Extents& other);

 private:
  size_t index_at(int64_t offset) const;  // of the last extent that begins at or before `offset`; count() when none
  size_t first_at_or_after(int64_t offset) const;

  // All changes of an extent come through these three.
  void add(size_t index, int64_t offset, int64_t size);
  void replace(size_t index, int64_t offset, int64_t size);
  void remove(size_t index);
  void index_by_size();

  std::vector<int64_t> offsets_;
  std::vector<int32_t> sizes_;        // parallel to offsets_
  std::optional<FreeIndex> by_size_;  // of all extents, once they were many
};

}  // namespace plimsoll

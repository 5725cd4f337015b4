// Free blocks in the order of best fit: by size, then by address. Bins of similar sizes, an eighth of a power of two
// each, and in each bin a sorted list, so that a search touches few of them: for the hundred free blocks that a
// training run has as for tens of thousands. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace plimsoll {

struct FreeBlock {
  int64_t bytes = 0;    // or another unit, the same for all; 1 or more
  int64_t address = 0;  // differs from block to block
  uint32_t block = 0;
};

// A sorted list in chunks, so that an insertion moves little.
class SortedBlocks {
 public:
  void insert(const FreeBlock& block);
  void erase(const FreeBlock& block);                       // must be there; found by size and address
  const FreeBlock* first_of_at_least(int64_t bytes) const;  // null when there is none

  bool empty() const { return chunks_.empty(); }
  const FreeBlock& first() const { return chunks_.front()->blocks[0]; }
  const FreeBlock& last() const { return lasts_.back(); }
  void append_to(std::vector<FreeBlock>& all) const;

 private:
  struct Chunk {
    static constexpr size_t kMost = 32;
    std::array<FreeBlock, kMost> blocks;  // sorted
    size_t count = 0;                     // 1 or more
    FreeBlock* begin() { return blocks.data(); }
    FreeBlock* end() { return blocks.data() + count; }
  };

  size_t chunk_for(const FreeBlock& block) const;  // the first whose last is not before `block`
  void split(size_t chunk);

  std::vector<std::unique_ptr<Chunk>> chunks_;  // in order, all blocks of one before all of the next
  std::vector<FreeBlock> lasts_;                // the last block of each chunk
};

class FreeIndex {
 public:
  void insert(const FreeBlock& block);
  void erase(const FreeBlock& block);  // must be there; found by size and address
  // The first block of at least `bytes`; null when there is none. Good until the next change.
  const FreeBlock* best_fit(int64_t bytes) const;

  int64_t largest_bytes() const;
  std::vector<FreeBlock> all() const;

 private:
  static constexpr size_t kBins = 8 * 64;  // more than any size has

  static size_t bin_of(int64_t bytes);
  size_t first_used(size_t bin) const;  // at or after `bin`; kBins when there is none

  std::vector<SortedBlocks> bins_;                // up to the largest that was ever used
  std::array<uint64_t, kBins / 64> used_bins_{};  // a bit each
};

}  // namespace plimsoll

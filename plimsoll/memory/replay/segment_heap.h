// What PyTorch's and TensorFlow's allocators have in common: segments taken from the device and cut into blocks, best
// fit (smallest size, then lowest address) among the free ones, free neighbours joined. Blocks of one shelf never serve
// another. Segments lie where cudaMalloc would put them (device_addresses.h). Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/memory/free_index.h"
#include "plimsoll/memory/replay/device_addresses.h"

namespace plimsoll::replay {

class SegmentHeap {
 public:
  using BlockId = uint32_t;
  static constexpr BlockId kNone = UINT32_MAX;

  // The best fit for `bytes`, now in use; kNone when no free block of `shelf` is large enough.
  BlockId take_best_fit(uint32_t shelf, int64_t bytes);
  // A new segment as one block in use.
  BlockId add_segment(uint32_t shelf, int64_t bytes);
  // Cuts a block in use to its first `bytes`, fewer than it has; the rest is free.
  void cut(BlockId block, int64_t bytes);
  // Frees a block and joins it with free neighbours of its segment.
  void give_back(BlockId block);
  // Gives segments without a block in use back to the device; returns their bytes.
  int64_t release_free_segments();

  int64_t bytes(BlockId block) const { return blocks_[block].bytes; }
  int64_t segment_bytes() const { return segment_bytes_; }  // of all segments together
  int64_t largest_free_bytes() const;

 private:
  // Free blocks, and only they, are in free_. Neighbours are those of the same segment, in the order of their
  // addresses.
  struct Block {
    int64_t address = 0;
    int64_t bytes = 0;
    BlockId before = kNone;
    BlockId after = kNone;
    uint32_t shelf = 0;
    bool is_free = false;
  };

  BlockId new_block();
  void release_if_whole(BlockId block);  // when the free block is all of its segment
  void insert_free(BlockId block);
  void erase_free(BlockId block);
  bool can_join(BlockId block) const { return block != kNone && blocks_[block].is_free; }
  void join_after(BlockId block);  // takes in the block after `block`, which is not in free_

  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;  // of blocks_
  std::vector<FreeIndex> free_;  // by shelf
  int64_t segment_bytes_ = 0;
  DeviceAddresses addresses_;
};

}  // namespace plimsoll::replay

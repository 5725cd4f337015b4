#include "plimsoll/memory/replay/segment_heap.h"

#include <algorithm>

namespace plimsoll::replay {

SegmentHeap::BlockId SegmentHeap::take_best_fit(uint32_t shelf, int64_t bytes) {
  if (shelf >= free_.size()) return kNone;
  const FreeBlock* found = free_[shelf].best_fit(bytes);
  if (found == nullptr) return kNone;
  const BlockId block = found->block;
  erase_free(block);
  return block;
}

SegmentHeap::BlockId SegmentHeap::add_segment(uint32_t shelf, int64_t bytes) {
  if (shelf >= free_.size()) free_.resize(shelf + 1);
  const BlockId block = new_block();
  blocks_[block] = {.address = addresses_.take(bytes), .bytes = bytes, .shelf = shelf};
  segment_bytes_ += bytes;
  return block;
}

void SegmentHeap::cut(BlockId block, int64_t bytes) {
  const BlockId rest = new_block();
  Block& front = blocks_[block];
  blocks_[rest] = {.address = front.address + bytes,
                   .bytes = front.bytes - bytes,
                   .before = block,
                   .after = front.after,
                   .shelf = front.shelf};
  if (front.after != kNone) blocks_[front.after].before = rest;
  front.after = rest;
  front.bytes = bytes;
  insert_free(rest);
}

void SegmentHeap::give_back(BlockId block) {
  if (can_join(blocks_[block].after)) {
    erase_free(blocks_[block].after);
    join_after(block);
  }
  if (const BlockId before = blocks_[block].before; can_join(before)) {
    erase_free(before);
    join_after(before);
    block = before;
  }
  insert_free(block);
}

int64_t SegmentHeap::release_free_segments() {
  const int64_t held = segment_bytes_;
  for (const FreeIndex& shelf : free_) {
    for (const FreeBlock& candidate : shelf.all()) release_if_whole(candidate.block);
  }
  return held - segment_bytes_;
}

void SegmentHeap::release_if_whole(BlockId id) {
  const Block& block = blocks_[id];
  if (block.before != kNone || block.after != kNone) return;
  segment_bytes_ -= block.bytes;
  addresses_.give_back(block.address, block.bytes);
  erase_free(id);
  unused_.push_back(id);
}

int64_t SegmentHeap::largest_free_bytes() const {
  int64_t largest = 0;
  for (const FreeIndex& shelf : free_) largest = std::max(largest, shelf.largest_bytes());
  return largest;
}

SegmentHeap::BlockId SegmentHeap::new_block() {
  if (unused_.empty()) {
    blocks_.emplace_back();
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId block = unused_.back();
  unused_.pop_back();
  return block;
}

void SegmentHeap::insert_free(BlockId id) {
  Block& block = blocks_[id];
  block.is_free = true;
  free_[block.shelf].insert({block.bytes, block.address, id});
}

void SegmentHeap::erase_free(BlockId id) {
  Block& block = blocks_[id];
  block.is_free = false;
  free_[block.shelf].erase({block.bytes, block.address, id});
}

void SegmentHeap::join_after(BlockId id) {
  Block& block = blocks_[id];
  const BlockId taken = block.after;
  block.bytes += blocks_[taken].bytes;
  block.after = blocks_[taken].after;
  if (block.after != kNone) blocks_[block.after].before = id;
  unused_.push_back(taken);
}

}  // namespace plimsoll::replay

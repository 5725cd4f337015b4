// Blocks by their address: an open-addressed table, so that a lookup is one cache line in the usual case. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/memory/pool.h"

namespace plimsoll::preload {

class PointerTable {
 public:
  PointerTable() : slots_(kFirstSlots) {}

  size_t size() const { return size_; }

  // `block.data` is not in the table.
  void insert(const Block& block) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    put(block);
    ++size_;
  }

  const Block* find(const void* data) const {
    for (size_t i = start_of(data);; i = next(i)) {
      if (slots_[i].data == data) return &slots_[i];
      if (slots_[i].data == nullptr) return nullptr;
    }
  }

  // False: `data` is not in the table, and `block` stays as it is.
  bool take(const void* data, Block& block) {
    for (size_t i = start_of(data); slots_[i].data != nullptr; i = next(i)) {
      if (slots_[i].data != data) continue;
      copy(slots_[i], block);
      close_gap(i);
      --size_;
      return true;
    }
    return false;
  }

 private:
  static constexpr size_t kFirstSlots = 4096;  // a power of two

  // Field by field: as a whole it would wait for the stores that just wrote the fields.
  static void copy(const Block& from, Block& to) {
    to.data = from.data;
    to.bytes = from.bytes;
    to.id = from.id;
    to.generation = from.generation;
  }
  size_t next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  size_t start_of(const void* data) const {
    const uint64_t mixed = (reinterpret_cast<uintptr_t>(data) >> 8) * 0x9E3779B97F4A7C15u;
    return (mixed >> 32) & (slots_.size() - 1);
  }
  void put(const Block& block) {
    size_t i = start_of(block.data);
    while (slots_[i].data != nullptr) i = next(i);
    copy(block, slots_[i]);
  }
  // Moves later entries of the same run forward, so that no search stops short at the gap.
  void close_gap(size_t gap) {
    for (size_t i = next(gap); slots_[i].data != nullptr; i = next(i)) {
      const size_t distance = (i - start_of(slots_[i].data)) & (slots_.size() - 1);
      if (distance < ((i - gap) & (slots_.size() - 1))) continue;
      slots_[gap] = slots_[i];
      gap = i;
    }
    slots_[gap] = {};
  }
  void grow() {
    std::vector<Block> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Block& block : old) {
      if (block.data != nullptr) put(block);
    }
  }

  std::vector<Block> slots_;
  size_t size_ = 0;
};

}  // namespace plimsoll::preload

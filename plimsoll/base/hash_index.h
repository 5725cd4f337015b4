// Finds numbered things by content: an open-addressing table of numbers that leaves the things where they are.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

inline uint64_t mix_hash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

class HashIndex {
 public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  // The number n with equals(n) among those inserted with this hash, or kAbsent.
  template <typename Equals>
  uint32_t find(uint64_t hash, const Equals& equals) const {
    if (slots_.empty()) return kAbsent;
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.number == kAbsent) return kAbsent;
      if (slot.tag == static_cast<uint32_t>(hash >> 32) && equals(slot.number)) return slot.number;
    }
  }

  void insert(uint64_t hash, uint32_t number) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    place({static_cast<uint32_t>(hash >> 32), number, hash});
    ++count_;
  }

 private:
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash: most unequal things are told apart without a look at them
    uint32_t number = kAbsent;
    uint64_t hash = 0;
  };

  size_t mask() const { return slots_.size() - 1; }

  void place(const Slot& slot) {
    size_t at = slot.hash & mask();
    while (slots_[at].number != kAbsent) at = (at + 1) & mask();
    slots_[at] = slot;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number != kAbsent) place(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half of them used
  size_t count_ = 0;
};

}  // namespace plimsoll

// States of which the search has proven that they lead nowhere. A lossy table: old entries make room for new ones.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/pack/state.h"

namespace plimsoll::pack {

class Nogoods {
 public:
  // What the future of a part depends on: its unplaced buffers with their resting and lowest offsets, as a hash. Two
  // states with one key are taken to be the same; a lookup is wrong with a chance of 2^-48.
  static uint64_t key_of(const State& state, Span part);

  void clear() { slots_.clear(); }
  bool contains(uint64_t key) const { return !slots_.empty() && slots_[slot(key)] == key; }
  void insert(uint64_t key) {
    if (slots_.empty()) slots_.assign(kSlots, 0);
    slots_[slot(key)] = key;
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 16;
  static size_t slot(uint64_t key) { return (key * 0x9E3779B97F4A7C15u) >> 48; }

  std::vector<uint64_t> slots_;
};

}  // namespace plimsoll::pack

// Sets of small integers as rows of 64-bit words.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::pack {

// `rows` sets over [0, size), side by side.
class BitRows {
 public:
  BitRows() = default;
  BitRows(int32_t rows, int32_t size) : words_((size + 63) / 64), bits_(static_cast<size_t>(rows) * words_) {}

  int32_t words() const { return words_; }
  const uint64_t* row(int32_t r) const { return bits_.data() + static_cast<size_t>(r) * words_; }
  uint64_t* row(int32_t r) { return bits_.data() + static_cast<size_t>(r) * words_; }
  void insert(int32_t r, int32_t i) { row(r)[i / 64] |= uint64_t{1} << (i % 64); }
  void erase(int32_t r, int32_t i) { row(r)[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  bool contains(int32_t r, int32_t i) const { return (row(r)[i / 64] >> (i % 64) & 1) != 0; }

 private:
  int32_t words_ = 0;
  std::vector<uint64_t> bits_;
};

class BitSet {
 public:
  BitSet() = default;
  explicit BitSet(int32_t size) : rows_(1, size) {}

  const uint64_t* words() const { return rows_.row(0); }
  void insert(int32_t i) { rows_.insert(0, i); }
  void erase(int32_t i) { rows_.erase(0, i); }
  bool contains(int32_t i) const { return rows_.contains(0, i); }
  void clear() { std::fill_n(rows_.row(0), rows_.words(), 0); }

  bool empty() const {
    for (int32_t w = 0; w < rows_.words(); ++w) {
      if (words()[w] != 0) return false;
    }
    return true;
  }

  // Takes the smallest element out; -1 when there is none.
  int32_t pop() {
    for (int32_t w = 0; w < rows_.words(); ++w) {
      uint64_t& word = rows_.row(0)[w];
      if (word == 0) continue;
      const int32_t i = w * 64 + std::countr_zero(word);
      word &= word - 1;
      return i;
    }
    return -1;
  }

 private:
  BitRows rows_;
};

// Calls `visit(i)` for each i that is in both sets, rising.
template <typename Visit>
void for_each_common(const uint64_t* a, const uint64_t* b, int32_t words, Visit visit) {
  for (int32_t w = 0; w < words; ++w) {
    for (uint64_t rest = a[w] & b[w]; rest != 0; rest &= rest - 1) visit(w * 64 + std::countr_zero(rest));
  }
}

// Calls `visit(i)` for each i of [first, end) that is in the set, rising; the range is not empty.
template <typename Visit>
void for_each_within(const uint64_t* set, int32_t first, int32_t end, Visit visit) {
  const int32_t last_word = (end - 1) / 64;
  for (int32_t w = first / 64; w <= last_word; ++w) {
    uint64_t rest = set[w];
    if (w == first / 64) rest &= ~uint64_t{0} << (first % 64);
    if (w == last_word) rest &= ~uint64_t{0} >> (63 - (end - 1) % 64);
    for (; rest != 0; rest &= rest - 1) visit(w * 64 + std::countr_zero(rest));
  }
}

// Like for_each_common, until `accept(i)` is false; whether it was true for all.
template <typename Accept>
bool all_common(const uint64_t* a, const uint64_t* b, int32_t words, Accept accept) {
  for (int32_t w = 0; w < words; ++w) {
    for (uint64_t rest = a[w] & b[w]; rest != 0; rest &= rest - 1) {
      if (!accept(w * 64 + std::countr_zero(rest))) return false;
    }
  }
  return true;
}

}  // namespace plimsoll::pack

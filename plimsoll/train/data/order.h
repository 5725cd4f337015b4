// The order of the samples of an epoch as a function: which sample is at a place, computed and not stored. It depends
// on the seed and the epoch alone.
#pragma once

#include <cstdint>

namespace plimsoll::train::data {

// 64 bits that depend on all bits of both.
constexpr uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + 0x9E3779B97F4A7C15U + (a << 6) + (a >> 2));
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// A permutation of 0 .. size - 1 by a key: a Feistel network on the next power of four, walked until it is in range.
class Permutation {
 public:
  Permutation(int64_t size, uint64_t key);

  int64_t operator()(int64_t place) const;
  int64_t inverse(int64_t value) const;  // the place of a value

 private:
  uint64_t step(uint64_t x) const;
  uint64_t step_back(uint64_t x) const;
  uint64_t round(uint64_t half, int round) const { return mix(key_ + static_cast<uint64_t>(round), half) & mask_; }

  uint64_t size_;
  uint64_t key_;
  int half_bits_ = 1;
  uint64_t mask_ = 1;
};

// The order of one epoch. `block` 0 shuffles all samples; else blocks of so many neighbours, in random order, each
// within itself.
class EpochOrder {
 public:
  struct Options {
    int64_t size = 0;
    bool shuffle = false;
    int64_t block = 0;
    uint64_t seed = 0;
  };

  EpochOrder(const Options& options, int64_t epoch);

  int64_t operator()(int64_t place) const;

 private:
  struct Spot {
    int64_t block;
    int64_t within;
  };
  Spot spot_of(int64_t place) const;

  Options options_;
  uint64_t key_;
  int64_t blocks_;
  Permutation order_;         // of the blocks
  int64_t last_block_place_;  // in that order, of the block that may be short
  int64_t last_block_size_;
};

}  // namespace plimsoll::train::data

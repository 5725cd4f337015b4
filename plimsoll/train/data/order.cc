#include "plimsoll/train/data/order.h"

#include <algorithm>

namespace plimsoll::train::data {
namespace {

constexpr int kRounds = 6;

int64_t block_size(const EpochOrder::Options& options) {
  const int64_t size = std::max<int64_t>(1, options.size);
  return options.block <= 0 ? size : std::min(options.block, size);
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t key)
    : size_(static_cast<uint64_t>(std::max<int64_t>(1, size))), key_(key) {
  while (half_bits_ < 31 && (uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
  mask_ = (uint64_t{1} << half_bits_) - 1;
}

uint64_t Permutation::step(uint64_t x) const {
  uint64_t left = x >> half_bits_;
  uint64_t right = x & mask_;
  for (int i = 0; i < kRounds; ++i) {
    const uint64_t next = left ^ round(right, i);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::step_back(uint64_t x) const {
  uint64_t left = x >> half_bits_;
  uint64_t right = x & mask_;
  for (int i = kRounds - 1; i >= 0; --i) {
    const uint64_t before = right ^ round(left, i);
    right = left;
    left = before;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator()(int64_t place) const {
  auto x = static_cast<uint64_t>(place);
  do x = step(x);
  while (x >= size_);
  return static_cast<int64_t>(x);
}

int64_t Permutation::inverse(int64_t value) const {
  auto x = static_cast<uint64_t>(value);
  do x = step_back(x);
  while (x >= size_);
  return static_cast<int64_t>(x);
}

EpochOrder::EpochOrder(const Options& options, int64_t epoch)
    : options_(options),
      key_(mix(options.seed, static_cast<uint64_t>(epoch))),
      blocks_((std::max<int64_t>(1, options.size) + block_size(options) - 1) / block_size(options)),
      order_(blocks_, key_),
      last_block_place_(order_.inverse(blocks_ - 1)),
      last_block_size_(options.size - (blocks_ - 1) * block_size(options)) {
  options_.block = block_size(options);
}

EpochOrder::Spot EpochOrder::spot_of(int64_t place) const {
  const int64_t before = last_block_place_ * options_.block;
  if (place < before) return {place / options_.block, place % options_.block};
  if (place < before + last_block_size_) return {last_block_place_, place - before};
  const int64_t after = place - last_block_size_;  // as if the short block were not there
  return {after / options_.block + 1, after % options_.block};
}

int64_t EpochOrder::operator()(int64_t place) const {
  if (!options_.shuffle) return place;
  const Spot spot = spot_of(place);
  const int64_t block = order_(spot.block);
  const int64_t size = block == blocks_ - 1 ? last_block_size_ : options_.block;
  return block * options_.block + Permutation(size, mix(key_, static_cast<uint64_t>(block)))(spot.within);
}

}  // namespace plimsoll::train::data

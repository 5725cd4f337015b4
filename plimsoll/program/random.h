// Random numbers without state, so that what was drawn in the forward pass is drawn again in the backward pass and
// nothing is stored. The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as
// 1, 2, 3", 2011): ten rounds of multiplication turn a counter of four words and a key of two into four random words.
// All kernels on all devices draw the same bits. Pure functions.
//
// A draw is named by
//   seed    what changes from step to step; the key, low word first
//   stream  which op draws: the upper half of the counter, low word first
//   index   which element is drawn for: word index % 4 of the counter whose lower half is index / 4, low word first
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll::program {

using PhiloxWords = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxWords philox(PhiloxWords counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * counter[0];
    const uint64_t odd = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(even)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 32 random bits. A kernel that wants neighbours calls philox once for each four.
constexpr uint32_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t block = index / 4;
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  return philox({low(block), high(block), low(stream), high(stream)}, {low(seed), high(seed)})[index % 4];
}

// Dropout at `rate` (0 to 1) keeps the elements whose random bits are not below this: round(rate * 2^32).
constexpr uint64_t drop_threshold(double rate) { return static_cast<uint64_t>(rate * 4294967296.0 + 0.5); }

}  // namespace plimsoll::program

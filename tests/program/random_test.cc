#include "plimsoll/program/random.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

namespace plimsoll::program {
namespace {

// The vectors that the authors of Philox publish.
static_assert(philox({}, {}) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Random, DrawsTheWordsOfTheNamedCounter) {
  const uint64_t seed = 0x299f31d0a4093822;
  const uint64_t stream = 0x0370734413198a2e;
  const uint64_t block = 0x05a308d3243f6a88;  // four times this is still an index
  const PhiloxWords words = philox({0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  for (uint64_t word = 0; word < 4; ++word) EXPECT_EQ(random_bits(seed, stream, 4 * block + word), words[word]);
}

std::vector<uint32_t> draw(uint64_t seed, uint64_t stream, size_t count) {
  std::vector<uint32_t> bits(count);
  for (size_t i = 0; i < count; ++i) bits[i] = random_bits(seed, stream, i);
  return bits;
}

// Chi squared of the counts of the top bits in 64 bins: mean 63, standard deviation 11.2.
double chi_squared(const std::vector<uint32_t>& bits) {
  std::array<double, 64> counts{};
  for (const uint32_t word : bits) ++counts[word >> 26];
  const double expected = static_cast<double>(bits.size()) / 64;
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(Random, IsUniformForNeighbouringSeedsAndStreams) {
  for (const uint64_t seed : {0, 1, 2}) {
    for (const uint64_t stream : {0, 1, 2}) {
      const double chi = chi_squared(draw(seed, stream, 1 << 16));
      EXPECT_GT(chi, 63 - 4 * 11.2);
      EXPECT_LT(chi, 63 + 4 * 11.2);
    }
  }
}

TEST(Random, SeedsAndStreamsShareNoDraws) {
  const auto same = [](const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0, std::plus<>(), std::equal_to<>());
  };
  const auto base = draw(0, 0, 4096);
  EXPECT_LE(same(base, draw(1, 0, 4096)), 1);
  EXPECT_LE(same(base, draw(0, 1, 4096)), 1);
  EXPECT_LE(same(base, draw(uint64_t{1} << 32, 0, 4096)), 1);
}

TEST(Random, ThresholdsReachBothEnds) {
  EXPECT_EQ(drop_threshold(0), 0u);
  EXPECT_EQ(drop_threshold(0.5), uint64_t{1} << 31);
  EXPECT_EQ(drop_threshold(1), uint64_t{1} << 32);
}

}  // namespace
}  // namespace plimsoll::program

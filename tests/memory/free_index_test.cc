#include "plimsoll/memory/free_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <tuple>

namespace plimsoll {
namespace {

using Oracle = std::set<std::tuple<int64_t, int64_t, uint32_t>>;

// Grows, then shrinks; sizes of 1 to `most`, half of them below its square root.
void agree(uint32_t seed, int64_t most) {
  std::mt19937_64 random(seed);
  FreeIndex index;
  Oracle oracle;
  const auto size = [&] {
    const int64_t wide = static_cast<int64_t>(random() >> 1) % most + 1;
    return random() % 2 == 0 ? wide : std::max<int64_t>(1, static_cast<int64_t>(std::sqrt(wide)));
  };
  for (uint32_t i = 0; i < 20'000; ++i) {
    const int64_t bytes = size();
    const auto found = oracle.lower_bound({bytes, 0, 0});
    const FreeBlock* fit = index.best_fit(bytes);
    ASSERT_EQ(fit != nullptr, found != oracle.end());
    if (fit != nullptr) {
      ASSERT_EQ(std::tuple(fit->bytes, fit->address, fit->block), *found);
    }
    if (random() % 100 < (i < 10'000 ? 60u : 40u)) {
      const auto address = static_cast<int64_t>(random() % 1000 << 32 | i);
      index.insert({bytes, address, i});
      oracle.insert({bytes, address, i});
    } else if (!oracle.empty()) {
      const auto victim = found == oracle.end() ? oracle.begin() : found;
      const auto [erased_bytes, address, block] = *victim;
      index.erase({erased_bytes, address, block});
      oracle.erase(victim);
    }
    ASSERT_EQ(index.largest_bytes(), oracle.empty() ? 0 : std::get<0>(*oracle.rbegin()));
  }
  ASSERT_EQ(index.all().size(), oracle.size());
}

TEST(FreeIndex, AgreesWithASortedSet) {
  uint32_t seed = 1;
  for (const int64_t most : {int64_t{1}, int64_t{300}, int64_t{1} << 24, INT64_MAX / 2}) agree(seed++, most);
}

TEST(FreeIndex, HasNothingLargerThanItsLargest) {
  FreeIndex index;
  EXPECT_EQ(index.best_fit(1), nullptr);
  index.insert({INT64_MAX - 1, 0, 7});
  EXPECT_EQ(index.best_fit(INT64_MAX), nullptr);
  EXPECT_EQ(index.best_fit(INT64_MAX - 1)->block, 7);
}

}  // namespace
}  // namespace plimsoll

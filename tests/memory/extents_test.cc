#include "plimsoll/memory/extents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

// The same set, a flag per granule.
class Oracle {
 public:
  explicit Oracle(int64_t size) : free_(static_cast<size_t>(size)) {}

  void set(int64_t offset, int64_t size, bool free) {
    for (int64_t i = offset; i < offset + size; ++i) free_[static_cast<size_t>(i)] = free;
  }
  bool all(int64_t offset, int64_t size, bool free) const {
    for (int64_t i = offset; i < offset + size; ++i) {
      if (i >= end() || free_[static_cast<size_t>(i)] != free) return false;
    }
    return true;
  }

  std::vector<std::pair<int64_t, int64_t>> extents() const {  // offset and size
    std::vector<std::pair<int64_t, int64_t>> found;
    for (int64_t i = 0; i < end(); ++i) {
      if (!free_[static_cast<size_t>(i)]) continue;
      if (i == 0 || !free_[static_cast<size_t>(i) - 1]) found.push_back({i, 0});
      ++found.back().second;
    }
    return found;
  }

  int64_t best_fit(int64_t size) const {
    std::pair<int64_t, int64_t> best = {Extents::kNone, INT64_MAX};
    for (const auto& extent : extents()) {
      if (extent.second >= size && extent.second < best.second) best = extent;
    }
    return best.first;
  }

 private:
  int64_t end() const { return static_cast<int64_t>(free_.size()); }
  std::vector<bool> free_;
};

std::vector<std::pair<int64_t, int64_t>> contents(const Extents& extents) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (size_t i = 0; i < extents.count(); ++i) found.push_back({extents.offset(i), extents.size(i)});
  return found;
}

// How many extents there were at most.
size_t agree(int64_t range, int64_t largest, int operations) {
  std::mt19937 random(1);
  Extents extents;
  Oracle oracle(range);
  size_t most = 0;
  for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
    const int64_t offset = random() % range;
    const int64_t size = 1 + random() % largest;
    EXPECT_EQ(extents.contains(offset, size), oracle.all(offset, size, true));
    EXPECT_EQ(extents.best_fit(size), oracle.best_fit(size));
    if (oracle.all(offset, size, true)) {
      extents.carve(offset, size);
      oracle.set(offset, size, false);
    } else if (oracle.all(offset, size, false)) {
      extents.insert(offset, size);
      oracle.set(offset, size, true);
    }
    most = std::max(most, extents.count());
    [&] { ASSERT_EQ(contents(extents), oracle.extents()) << "after operation " << i; }();
  }
  return most;
}

TEST(Extents, AgreeWithAFlagPerGranule) { agree(200, 12, 20'000); }

TEST(Extents, AgreeWithAFlagPerGranuleWhenTheyAreMany) {
  EXPECT_GT(agree(5'000, 3, kSanitized ? 1'500 : 8'000), kSanitized ? 300u : 600u);
}

TEST(Extents, GiveTheLargest) {
  Extents extents;
  EXPECT_EQ(extents.largest(), 0);
  extents.insert(0, 3);
  extents.insert(10, 7);
  EXPECT_EQ(extents.largest(), 7);
}

TEST(Extents, DrainedIntoOthersMergeWithThem) {
  Extents even;
  Extents odd;
  for (int64_t i = 0; i < 10; ++i) (i % 2 == 0 ? even : odd).insert(i * 4, 4);
  odd.drain_into(even);
  EXPECT_EQ(odd.count(), 0u);
  EXPECT_EQ(contents(even), (std::vector<std::pair<int64_t, int64_t>>{{0, 40}}));
}

TEST(Extents, OfTheLargestSizeAreFound) {
  Extents extents;
  extents.insert(0, Extents::kLargest);
  EXPECT_EQ(extents.best_fit(Extents::kLargest), 0);
  EXPECT_EQ(extents.best_fit(Extents::kLargest + 1), Extents::kNone);
}

TEST(Extents, BeyondTheLargestSizeStayApart) {
  Extents extents;
  extents.insert(0, Extents::kLargest);
  extents.insert(Extents::kLargest, 5);
  EXPECT_EQ(extents.count(), 2u);
  EXPECT_TRUE(extents.contains(Extents::kLargest, 5));
  EXPECT_FALSE(extents.contains(Extents::kLargest - 1, 2));
}

}  // namespace
}  // namespace plimsoll

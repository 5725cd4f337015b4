#include "plimsoll/pack/occupancy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/pack/pack.h"
#include "tests/pack/instances.h"

namespace plimsoll::pack {
namespace {

bool meet(const Area& a, const Area& b) {
  return a.first < b.end && b.first < a.end && a.low < b.high && b.low < a.high;
}

std::vector<Tenant> random_tenants(std::mt19937_64& random) {
  const Buffers buffers = crowded(random, 200, 64);
  const Result packing = pack(buffers, {.node_limit = 0});
  std::vector<Tenant> tenants;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t low = packing->offsets[i];
    tenants.push_back({{buffers[i].first, buffers[i].end, low, low + buffers[i].bytes}, static_cast<int32_t>(i)});
  }
  return tenants;
}

Area random_window(std::mt19937_64& random) {
  const int64_t first = between(random, -5, 200);
  const int64_t low = between(random, 0, 80);
  return {first, first + between(random, 1, 60), low, low + between(random, 1, 40)};
}

std::vector<int32_t> found_in(const Occupancy& occupancy, const Area& window) {
  std::vector<int32_t> ids;
  EXPECT_TRUE(occupancy.all_within(window, INT64_MAX, [&](const Tenant& tenant) {
    ids.push_back(tenant.id);
    return true;
  }));
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<int32_t> expected_in(const std::vector<Tenant>& tenants, const Area& window) {
  std::vector<int32_t> ids;
  for (const Tenant& tenant : tenants) {
    if (meet(tenant.area, window)) ids.push_back(tenant.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Occupancy, FindsWhateverReachesIntoAWindowAsTenantsComeAndGo) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Tenant> tenants = random_tenants(random);
    std::shuffle(tenants.begin(), tenants.end(), random);
    std::vector<Tenant> inside(tenants.begin(), tenants.begin() + std::ssize(tenants) / 2);
    std::vector<Tenant> outside(tenants.begin() + std::ssize(tenants) / 2, tenants.end());
    Occupancy occupancy(inside);
    for (int i = 0; i < 400; ++i) {
      const Area window = random_window(random);
      ASSERT_EQ(found_in(occupancy, window), expected_in(inside, window)) << seed;
      ASSERT_EQ(occupancy.is_free(window), expected_in(inside, window).empty()) << seed;
      const bool comes = inside.empty() || (!outside.empty() && random() % 2 == 0);
      (comes ? inside : outside).push_back((comes ? outside : inside).back());
      (comes ? outside : inside).pop_back();
      comes ? occupancy.insert(inside.back()) : occupancy.erase(outside.back());
    }
  }
}

TEST(Occupancy, TakesAnyTimes) {
  Occupancy occupancy;
  occupancy.insert({{INT64_MIN, INT64_MAX, 0, 8}, 0});
  occupancy.insert({{INT64_MIN, INT64_MIN + 1, 8, 16}, 1});
  occupancy.insert({{INT64_MAX - 1, INT64_MAX, 8, 16}, 2});
  EXPECT_FALSE(occupancy.is_free({0, 1, 7, 9}));
  EXPECT_TRUE(occupancy.is_free({INT64_MIN + 1, INT64_MAX - 1, 8, 16}));
  EXPECT_FALSE(occupancy.is_free({INT64_MIN, INT64_MIN + 1, 15, 20}));
  EXPECT_FALSE(occupancy.is_free({0, INT64_MAX, 15, 20}));
  EXPECT_EQ(occupancy.highest(), 16);
  EXPECT_EQ(occupancy.reaching_above(8).size(), 2u);
}

TEST(Occupancy, GivesUpAfterSoManyCells) {
  Occupancy occupancy;
  for (int32_t i = 0; i < 100; ++i) occupancy.insert({{i, i + 1, 0, 8}, i});
  EXPECT_TRUE(occupancy.is_free({0, 100, 8, 9}, 1000));
  EXPECT_FALSE(occupancy.is_free({0, 100, 8, 9}, 10));
}

}  // namespace
}  // namespace plimsoll::pack

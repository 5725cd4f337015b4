#include "plimsoll/memory/slabs.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "plimsoll/base/bytes.h"
#include "tests/memory/failing_pages.h"
#include "tests/memory/logged_order.h"

namespace plimsoll {
namespace {

struct Fixture {
  explicit Fixture(int64_t page_bytes, int64_t pages = 64)
      : source(page_bytes, page_bytes * pages), ledger(source, page_bytes * pages), slabs(ledger, order) {}

  FailingPages source;
  PageLedger ledger;
  LoggedOrder order;
  Slabs slabs;
};

TEST(Slabs, NeverOverlapNorCrossAPage) {
  for (int64_t page = kKiB; page <= 128 * kMiB; page *= 2) {
    Fixture fixture(page);
    std::mt19937 random(1);
    std::map<std::byte*, std::pair<int64_t, Slabs::Slot>> live;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 3 == 0 && !live.empty()) {
        const auto victim = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
        fixture.slabs.free(victim->second.second);
        live.erase(victim);
        continue;
      }
      const auto bytes = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(fixture.slabs.largest_bytes()));
      const auto slot = fixture.slabs.allocate(bytes, 0);
      if (!slot) continue;
      const auto address = reinterpret_cast<uintptr_t>(slot->data);
      ASSERT_EQ(address % 256, 0u);
      ASSERT_EQ(address / static_cast<uintptr_t>(page),
                (address + static_cast<uintptr_t>(bytes) - 1) / static_cast<uintptr_t>(page));
      const auto next = live.lower_bound(slot->data);
      ASSERT_TRUE(next == live.end() || slot->data + bytes <= next->first);
      ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second.first <= slot->data);
      live.emplace(slot->data, std::pair(bytes, *slot));
    }
    for (const auto& [data, block] : live) fixture.slabs.free(block.second);
    fixture.slabs.trim();
    EXPECT_EQ(fixture.source.created_pages(), 0) << "with pages of " << format_bytes(page);
  }
}

TEST(Slabs, SmallerThanAGranuleArePagesWithoutSlabs) {
  Fixture fixture(512);
  EXPECT_LT(fixture.slabs.largest_bytes(), 256);
}

TEST(Slabs, GiveNothingWhenThereAreNoPages) {
  Fixture fixture(4 * kKiB, 2);
  std::vector<Slabs::Slot> slots;
  while (const auto slot = fixture.slabs.allocate(256, 0)) slots.push_back(*slot);
  EXPECT_EQ(slots.size(), 32u);
  EXPECT_EQ(fixture.slabs.trim(), 0);
  fixture.slabs.free(slots.back());
  EXPECT_TRUE(fixture.slabs.allocate(256, 0));
}

TEST(Slabs, TakeAPageAgainAfterATrim) {
  Fixture fixture(4 * kKiB, 1);
  fixture.slabs.free(*fixture.slabs.allocate(300, 0));
  EXPECT_EQ(fixture.slabs.trim(), 4 * kKiB);
  EXPECT_EQ(fixture.source.created_pages(), 0);
  EXPECT_TRUE(fixture.slabs.allocate(1000, 0));
}

TEST(Slabs, OfOneStreamServeAnotherOnlyAfterAWait) {
  Fixture fixture(4 * kKiB, 2);
  const auto first = *fixture.slabs.allocate(1000, 1);
  std::vector<Slabs::Slot> full;
  for (int i = 0; i < 4; ++i) full.push_back(*fixture.slabs.allocate(1000, 1));  // the second slab
  for (int i = 1; i < 4; ++i) fixture.slabs.free(full[static_cast<size_t>(i)]);
  fixture.slabs.free(full[0]);
  fixture.slabs.free(first);  // one slab stays with stream 1, the other is anybody's
  EXPECT_TRUE(fixture.order.waits.empty());
  EXPECT_TRUE(fixture.slabs.allocate(500, 2));
  EXPECT_EQ(fixture.order.waits, (LoggedOrder::Waits{{2, 1}}));
}

TEST(Slabs, WaitForNobodyOnNewPages) {
  Fixture fixture(4 * kKiB, 1);
  fixture.slabs.free(*fixture.slabs.allocate(300, 1));
  fixture.slabs.trim();
  EXPECT_EQ(fixture.order.synchronized, 1) << "no page is taken from under running work";
  EXPECT_TRUE(fixture.slabs.allocate(300, 2));
  EXPECT_TRUE(fixture.order.waits.empty());
}

TEST(Slabs, LoseNoPageWhenItCannotBeMapped) {
  Fixture fixture(4 * kKiB, 1);
  fixture.source.fail_map_at(1);
  EXPECT_THROW(fixture.slabs.allocate(300, 0), SystemError);
  EXPECT_EQ(fixture.source.created_pages(), 0);
  EXPECT_TRUE(fixture.slabs.allocate(300, 0));
}

}  // namespace
}  // namespace plimsoll

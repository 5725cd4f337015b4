// The hard limit: never more pages than the budget, and a request fails only when live bytes plus the request exceed
// it, where every block counts with the pages it touches.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/pool.h"
#include "tests/memory/failing_pages.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

constexpr int64_t kPage = 4 * kKiB;
constexpr int64_t kLimitPages = 256;

struct Fixture {
  StrictPages pages{kPage, kGiB};
  trace::Recorder recorder{0};
  Pool pool{pages, {kLimitPages * kPage, "test"}, recorder};

  ~Fixture() { EXPECT_LE(pages.most_created_pages(), kLimitPages); }
};

// Pages that a block can keep others from: one more than its bytes fill, as it may begin anywhere in a page.
int64_t touched_pages(int64_t bytes) { return bytes / kPage + 2; }

TEST(PoolLimit, HoldsInWholePagesToTheLastOne) {
  Fixture fixture;
  std::mt19937 random(3);
  std::vector<Block> live;
  int64_t live_pages = 0;
  for (int i = 0; i < (kSanitized ? 4'000 : 20'000); ++i) {
    const auto count = static_cast<int64_t>(1 + random() % (i % 3 == 0 ? kLimitPages : 8));
    const bool fits = live_pages + count <= kLimitPages;
    try {
      live.push_back(fixture.pool.allocate({.bytes = count * kPage, .stream = static_cast<Stream>(random() % 3)}));
      live_pages += count;
      ASSERT_TRUE(fits) << "beyond the limit";
    } catch (const ResourceExhausted& error) {
      ASSERT_FALSE(fits) << count << " pages beside " << live_pages << " at request " << i << "\n" << error.what();
    }
    for (int frees = static_cast<int>(random() % 3); frees > 0 && !live.empty(); --frees) {
      std::swap(live[random() % live.size()], live.back());
      live_pages -= live.back().bytes / kPage;
      fixture.pool.free(live.back());
      live.pop_back();
    }
  }
  for (const Block& block : live) fixture.pool.free(block);
}

TEST(PoolLimit, RefusesOddSizesOnlyWhenThePagesTheyTouchExceedIt) {
  Fixture fixture;
  std::mt19937 random(4);
  std::vector<Block> live;
  int64_t live_pages = 0;
  int refused = 0;
  for (int i = 0; i < (kSanitized ? 4'000 : 20'000); ++i) {
    const auto bytes = static_cast<int64_t>(kPage + random() % (20 * kPage));
    try {
      live.push_back(fixture.pool.allocate(bytes));
      live_pages += touched_pages(live.back().bytes);
    } catch (const ResourceExhausted& error) {
      ++refused;
      ASSERT_GT(live_pages + touched_pages(bytes), kLimitPages) << "at request " << i << "\n" << error.what();
    }
    ASSERT_LE(fixture.pool.stats().live_bytes, kLimitPages * kPage);
    if (random() % 2 == 0 || live.size() > 40) {
      std::swap(live[random() % live.size()], live.back());
      live_pages -= touched_pages(live.back().bytes);
      fixture.pool.free(live.back());
      live.pop_back();
    }
  }
  EXPECT_GT(refused, 0);
  for (const Block& block : live) fixture.pool.free(block);
}

TEST(PoolLimit, HoldsTheSumOfEveryOtherBlockFreed) {
  for (const int64_t pages_each : {1, 2, 8}) {
    Fixture fixture;
    std::vector<Block> blocks;
    for (int64_t i = 0; i < kLimitPages / pages_each; ++i) blocks.push_back(fixture.pool.allocate(pages_each * kPage));
    EXPECT_THROW(fixture.pool.allocate(1), ResourceExhausted);
    for (size_t i = 0; i < blocks.size(); i += 2) fixture.pool.free(blocks[i]);
    const Block sum = fixture.pool.allocate(kLimitPages / 2 * kPage);
    EXPECT_THROW(fixture.pool.allocate(1), ResourceExhausted);
    fixture.pool.free(sum);
    for (size_t i = 1; i < blocks.size(); i += 2) fixture.pool.free(blocks[i]);
  }
}

TEST(PoolLimit, LetsSmallBlocksUseThePagesOfLargeOnesAndBack) {
  Fixture fixture;
  for (int round = 0; round < 3; ++round) {
    fixture.pool.free(fixture.pool.allocate(kLimitPages * kPage));
    std::vector<Block> small;
    for (int64_t i = 0; i < kLimitPages * 4; ++i) small.push_back(fixture.pool.allocate(kPage / 4));
    EXPECT_THROW(fixture.pool.allocate(1), ResourceExhausted);
    for (const Block& block : small) fixture.pool.free(block);
  }
}

// Every view of scattered pages takes a mapping per piece, of which a process has some tens of thousands.
TEST(PoolLimit, HoldsHoweverOftenFragmentsArePutTogether) {
  constexpr size_t kPages = 4096;
  FilePages pages = FilePages::host(kPage);
  trace::Recorder recorder(0);
  Pool pool(pages, {kPages * kPage, "test"}, recorder);
  std::mt19937 random(5);
  std::vector<Block> blocks;
  for (size_t i = 0; i < kPages; ++i) blocks.push_back(pool.allocate(kPage));
  for (int round = 0; round < 100; ++round) {
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (size_t i = 0; i < kPages / 2; ++i) pool.free(blocks[i]);
    pool.free(pool.allocate(kPages / 2 * kPage));
    for (size_t i = 0; i < kPages / 2; ++i) blocks[i] = pool.allocate(kPage);
  }
  EXPECT_EQ(pool.stats().remapping_allocations, 100);
  for (const Block& block : blocks) pool.free(block);
}

TEST(PoolLimit, ServesAnyStreamWithWhatAnotherFreed) {
  Fixture fixture;
  for (Stream stream = 0; stream < 5; ++stream) {
    fixture.pool.free(fixture.pool.allocate({.bytes = kLimitPages * kPage, .stream = stream}));
  }
}

}  // namespace
}  // namespace plimsoll

// A device that refuses: at the Nth call for every N of a run, nothing leaks, the error is typed, the next run works.
#include <gtest/gtest.h>

#include <random>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/pool.h"
#include "tests/memory/failing_pages.h"

namespace plimsoll {
namespace {

constexpr int64_t kPage = 4 * kKiB;

enum class Outcome { done, exhausted, refused };

// Small and large blocks, views, trims and two streams; the same every time. Frees everything, whatever happens.
Outcome run(Pool& pool) {
  std::mt19937 random(7);
  std::vector<Block> live;
  Outcome outcome = Outcome::done;
  try {
    for (int i = 0; i < 300; ++i) {
      const bool large = random() % 2 == 0;
      const auto bytes = static_cast<int64_t>(1 + random() % (large ? 6 * kPage : 1000));
      live.push_back(pool.allocate({.bytes = bytes, .stream = static_cast<Stream>(random() % 2)}));
      while (pool.stats().live_bytes > 40 * kPage) {
        std::swap(live[random() % live.size()], live.back());
        pool.free(live.back());
        live.pop_back();
      }
      if (i % 100 == 99) pool.trim();
    }
  } catch (const ResourceExhausted& error) {
    EXPECT_FALSE(error.report().help.empty());
    outcome = Outcome::exhausted;
  } catch (const SystemError&) {
    outcome = Outcome::refused;
  }
  for (const Block& block : live) pool.free(block);
  EXPECT_EQ(pool.stats().live_bytes, 0);
  return outcome;
}

// Runs with the Nth call refused until a run needs fewer calls than that. Each time: a pool that fails and then works.
template <typename FailAt>
int count_failing_runs(Outcome expected, FailAt fail_at) {
  int failed_runs = 0;
  for (int64_t n = 1;; ++n) {
    FailingPages pages(kPage, 100 * kPage);
    trace::Recorder recorder(0);
    {
      Pool pool(pages, {60 * kPage, "test"}, recorder);
      fail_at(pages, n);
      const Outcome outcome = run(pool);
      if (!pages.failed()) return failed_runs;
      // A refused page is asked for again after a trim, and may be there then.
      EXPECT_TRUE(outcome == expected || outcome == Outcome::done) << "at call " << n;
      failed_runs += outcome == expected ? 1 : 0;
      EXPECT_EQ(run(pool), Outcome::done) << "after the failure at call " << n;
    }
    EXPECT_TRUE(pages.nothing_left()) << "after the failure at call " << n;
    if (testing::Test::HasFailure()) return failed_runs;
  }
}

TEST(PoolFailure, OfEveryPageRequestIsResourceExhaustedAndLeaksNothing) {
  const int failed =
      count_failing_runs(Outcome::exhausted, [](FailingPages& pages, int64_t n) { pages.fail_create_at(n); });
  EXPECT_GT(failed, 0);
}

TEST(PoolFailure, OfEveryMapIsASystemErrorAndLeaksNothing) {
  const int failed = count_failing_runs(Outcome::refused, [](FailingPages& pages, int64_t n) { pages.fail_map_at(n); });
  EXPECT_GT(failed, 10);
}

TEST(PoolFailure, OfEveryReserveIsASystemErrorAndLeaksNothing) {
  const int failed =
      count_failing_runs(Outcome::refused, [](FailingPages& pages, int64_t n) { pages.fail_reserve_at(n); });
  EXPECT_GT(failed, 0);
}

TEST(PoolFailure, ToReserveLeavesNoHalfPool) {
  for (int64_t n = 1; n <= 2; ++n) {
    FailingPages pages(kPage, 100 * kPage);
    trace::Recorder recorder(0);
    pages.fail_reserve_at(n);
    EXPECT_THROW(Pool(pages, {60 * kPage, "test"}, recorder), SystemError);
    EXPECT_TRUE(pages.nothing_left());
  }
}

TEST(PoolFailure, OfADeviceSmallerThanTheBudgetNamesTheDevice) {
  FailingPages pages(kPage, 10 * kPage);
  trace::Recorder recorder(0);
  Pool pool(pages, {60 * kPage, "test"}, recorder);
  try {
    pool.allocate(11 * kPage);
    FAIL() << "the device has ten pages";
  } catch (const ResourceExhausted& error) {
    EXPECT_NE(error.report().help.at(0).find("strict has 10 pages"), std::string::npos) << error.what();
  }
  pool.free(pool.allocate(10 * kPage));
}

}  // namespace
}  // namespace plimsoll

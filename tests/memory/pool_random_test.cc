// A random workload of four threads on real pages. Every block is filled with a pattern of its own and checked when it
// is freed, so two blocks that share a byte, in one place or through two views of a page, are found.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/pool.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

constexpr int kThreads = 4;
constexpr int kOperations = kSanitized ? 100'000 : 1'000'000;  // of all threads together
constexpr int64_t kPage = 4 * kKiB;
constexpr int64_t kBudget = 4 * kMiB;

struct Filled {
  Block block;
  uint64_t pattern = 0;
};

class Worker {
 public:
  Worker(Pool& pool, int number)
      : pool_(pool), random_(static_cast<uint64_t>(number)), stream_(static_cast<Stream>(number % 3)) {}

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      if (live_.empty() || (random_() % 2 == 0 && live_.size() < 60)) {
        allocate();
      } else {
        free_one();
      }
      if (random_() % 20'000 == 0) pool_.trim();
    }
  }

  int64_t live_bytes() const {
    int64_t sum = 0;
    for (const Filled& filled : live_) sum += filled.block.bytes;
    return sum;
  }
  size_t live_blocks() const { return live_.size(); }
  int64_t refused() const { return refused_; }

  void free_all() {
    while (!live_.empty()) free_one();
  }

 private:
  // Mostly small; of the large ones few are of one size, so that holes do not fit and views are made.
  int64_t random_bytes() {
    const uint64_t kind = random_() % 10;
    if (kind < 5) return static_cast<int64_t>(1 + random_() % 1024);
    if (kind < 9) return static_cast<int64_t>(1 + random_() % (8 * kPage));
    return static_cast<int64_t>(1 + random_() % (64 * kPage));
  }

  void allocate() {
    try {
      const Block block = pool_.allocate({.bytes = random_bytes(), .stream = stream_});
      live_.push_back({block, random_()});
      fill(live_.back());
    } catch (const ResourceExhausted&) {
      ++refused_;
      free_all();
    }
  }

  void free_one() {
    std::swap(live_[random_() % live_.size()], live_.back());
    check(live_.back());
    pool_.free(live_.back().block);
    live_.pop_back();
  }

  static uint64_t word(const Filled& filled, int64_t index) {
    return filled.pattern ^ static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15u;
  }
  // The first and last words of every granule: blocks begin and end with granules.
  template <typename Visit>
  static void for_each_word(const Filled& filled, Visit visit) {
    for (int64_t at = 0; at < filled.block.bytes; at += Heap::kGranule) {
      visit(at);
      visit(at + Heap::kGranule - 8);
    }
  }
  static void fill(const Filled& filled) {
    for_each_word(filled, [&](int64_t at) {
      const uint64_t value = word(filled, at);
      std::memcpy(filled.block.data + at, &value, sizeof value);
    });
  }
  static void check(const Filled& filled) {
    bool same = true;
    for_each_word(filled, [&](int64_t at) {
      uint64_t value = 0;
      std::memcpy(&value, filled.block.data + at, sizeof value);
      same = same && value == word(filled, at);
    });
    ASSERT_TRUE(same) << "another block wrote into this one";
  }

  Pool& pool_;
  std::mt19937_64 random_;
  Stream stream_;
  std::vector<Filled> live_;
  int64_t refused_ = 0;
};

TEST(PoolRandom, NoTwoBlocksOfFourThreadsOverlapAndNoneIsLost) {
  FilePages pages = FilePages::host(kPage);
  trace::Recorder recorder(1000);
  Pool pool(pages, {kBudget, "test"}, recorder);
  std::vector<Worker> workers;
  for (int i = 0; i < kThreads; ++i) workers.emplace_back(pool, i);
  std::vector<std::thread> threads;
  for (Worker& worker : workers) threads.emplace_back([&] { worker.run(kOperations / kThreads); });
  for (std::thread& thread : threads) thread.join();

  int64_t live_bytes = 0;
  size_t live_blocks = 0;
  int64_t refused = 0;
  for (const Worker& worker : workers) {
    live_bytes += worker.live_bytes();
    live_blocks += worker.live_blocks();
    refused += worker.refused();
  }
  EXPECT_EQ(pool.stats().live_bytes, live_bytes);
  EXPECT_EQ(pool.stats().live_blocks, static_cast<int64_t>(live_blocks));
  EXPECT_GT(pool.stats().remapping_allocations, 0) << "the workload should make views";
  EXPECT_GT(refused, 0) << "the workload should reach the limit";
  EXPECT_LE(pool.stats().reserved_peak_bytes, kBudget);

  for (Worker& worker : workers) worker.free_all();
  EXPECT_EQ(pool.stats().live_bytes, 0);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0) << "pages were lost";
}

TEST(PoolRandom, ReclaimersCanBeAddedWhileOthersAllocate) {
  FilePages pages = FilePages::host(kPage);
  trace::Recorder recorder(0);
  Pool pool(pages, {64 * kPage, "test"}, recorder);
  std::atomic<int> called = 0;
  std::thread adder([&] {
    for (int i = 0; i < 20; ++i) {
      pool.add_reclaim("none", [&](int64_t) {
        ++called;
        return int64_t{0};
      });
    }
  });
  for (int i = 0; i < 50; ++i) {
    const Block block = pool.allocate(60 * kPage);
    EXPECT_THROW(pool.allocate(10 * kPage), ResourceExhausted);
    pool.free(block);
  }
  adder.join();
}

}  // namespace
}  // namespace plimsoll

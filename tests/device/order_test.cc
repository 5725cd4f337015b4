#include "plimsoll/device/cuda/order.h"

#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <thread>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/pages.h"
#include "plimsoll/memory/pool.h"
#include "tests/device/stand_in/stand_in.h"

namespace plimsoll::cuda {
namespace {

constexpr int64_t kPage = 64 * kKiB;

class CudaOrderTest : public testing::Test {
 protected:
  CudaOrderTest() {
    const StandInSettings settings{.card_bytes = size_t{1} << 30, .granularity = kPage};
    stand_in_reset(&settings);
    for (StreamHandle& stream : streams_) driver_.stream_create(&stream, 0);
  }
  ~CudaOrderTest() override {
    for (const StreamHandle stream : streams_) driver_.stream_destroy(stream);
  }

  Driver driver_ = Driver::load();
  CurrentDevice current_{driver_, 0};
  StreamHandle streams_[3] = {};
};

TEST_F(CudaOrderTest, NumbersStreamsOnce) {
  CudaOrder order(driver_);
  EXPECT_EQ(order.number(nullptr), 0);
  const Stream first = order.number(streams_[0]);
  EXPECT_NE(order.number(streams_[1]), first);
  EXPECT_EQ(order.number(streams_[0]), first);
}

TEST_F(CudaOrderTest, WaitsOnlyForWorkThatIsNotDone) {
  CudaOrder order(driver_);
  const Stream a = order.number(streams_[0]);
  const Stream b = order.number(streams_[1]);
  order.wait(a, b);
  EXPECT_EQ(stand_in_counts().waits, 0) << "nothing is queued on b";
  alignas(8) char nowhere[8] = {};
  for (int i = 0; i < 5; ++i) stand_in_fill(streams_[1], nowhere, 8, 0);
  order.wait(a, b);
  EXPECT_EQ(stand_in_counts().waits, 1);
}

TEST_F(CudaOrderTest, UsesTheNumberOfAStreamThatIsGoneAgain) {
  CudaOrder order(driver_);
  StreamHandle passing = nullptr;
  driver_.stream_create(&passing, 0);
  const Stream number = order.number(passing);
  order.forget(passing);
  driver_.stream_destroy(passing);
  order.synchronize();
  EXPECT_EQ(order.number(streams_[0]), number);
}

// Threads on streams of their own and of each other: every block is filled on its stream, checked there before it is
// freed, and freed on that or another stream that waited. Blocks that meet before the event, or pages that go while
// work is queued, are found by the stand-in.
class Worker {
 public:
  Worker(Pool& pool, CudaOrder& order, std::mutex& order_mutex, const Driver& driver, std::span<StreamHandle> streams,
         uint64_t seed)
      : pool_(pool), order_(order), order_mutex_(order_mutex), driver_(driver), streams_(streams), random_(seed) {}

  void run(int operations) {
    const CurrentDevice current(driver_, 0);
    EventHandle event = nullptr;
    driver_.event_create(&event, kEventDisableTiming);
    for (int i = 0; i < operations; ++i) {
      if (live_.size() < 12 && random_() % 2 == 0) {
        allocate();
      } else if (!live_.empty()) {
        free_one(event);
      }
      if (random_() % 500 == 0) {
        const std::lock_guard guard(order_mutex_);
        pool_.trim();
      }
    }
    while (!live_.empty()) free_one(event);
    driver_.event_destroy(event);
  }

 private:
  struct Live {
    Block block;
    StreamHandle stream = nullptr;
    uint64_t value = 0;
  };

  void allocate() {
    const StreamHandle stream = streams_[random_() % streams_.size()];
    const auto bytes = static_cast<int64_t>(8 * (1 + random_() % (random_() % 3 == 0 ? 64 * 1024 : 2048)));
    const std::lock_guard guard(order_mutex_);  // as the preload library serialises numbers and waits
    try {
      const Block block = pool_.allocate({.bytes = bytes, .stream = order_.number(stream)});
      live_.push_back({block, stream, random_()});
      stand_in_fill(stream, block.data, static_cast<size_t>(block.bytes), live_.back().value);
    } catch (const ResourceExhausted&) {
      ++refused_;
    }
  }

  void free_one(EventHandle event) {
    std::swap(live_[random_() % live_.size()], live_.back());
    const Live live = live_.back();
    live_.pop_back();
    StreamHandle last = live.stream;
    stand_in_check(last, live.block.data, static_cast<size_t>(live.block.bytes), live.value);
    if (random_() % 4 == 0) {  // another stream uses it too, and frees it
      last = streams_[random_() % streams_.size()];
      driver_.event_record(event, live.stream);
      driver_.stream_wait_event(last, event, 0);
      stand_in_check(last, live.block.data, static_cast<size_t>(live.block.bytes), live.value);
    }
    const std::lock_guard guard(order_mutex_);
    pool_.free(live.block, order_.number(last));
  }

  Pool& pool_;
  CudaOrder& order_;
  std::mutex& order_mutex_;
  const Driver& driver_;
  std::span<StreamHandle> streams_;
  std::mt19937_64 random_;
  std::vector<Live> live_;
  int refused_ = 0;
};

TEST_F(CudaOrderTest, NoBlockIsReusedBeforeItsEventAndNoPageGoesUnderWork) {
  {
    CudaPages pages(driver_, 0);
    CudaOrder order(driver_);
    trace::Recorder recorder(0);
    Pool pool(pages, {96 * kPage, "test"}, recorder, &order);
    std::mutex order_mutex;
    std::vector<Worker> workers;
    for (uint64_t i = 0; i < 4; ++i) workers.emplace_back(pool, order, order_mutex, driver_, streams_, i);
    std::vector<std::thread> threads;
    for (Worker& worker : workers) threads.emplace_back([&] { worker.run(1500); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.stats().live_bytes, 0);
    EXPECT_GT(pool.stats().remapping_allocations, 0) << "the workload should make views";
    driver_.ctx_synchronize();
  }
  const StandInCounts counts = stand_in_counts();
  EXPECT_GT(counts.executed, 5000);
  EXPECT_GT(counts.waits, 0);
  EXPECT_EQ(counts.mismatches, 0) << "a block was reused before its event";
  EXPECT_EQ(counts.faults, 0) << "a page was unmapped under queued work";
  EXPECT_EQ(counts.handles, 0);
}

}  // namespace
}  // namespace plimsoll::cuda

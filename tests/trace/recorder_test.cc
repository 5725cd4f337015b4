#include "plimsoll/trace/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll::trace {
namespace {

TEST(Recorder, KeepsEventsInOrderWithTheirTags) {
  Recorder recorder(16);
  const uint32_t weight = recorder.intern(Category::parameter, "fc.weight");
  recorder.record_alloc(1, 4096, weight, 2);
  recorder.record_free(1, 4096, weight, 2);
  const Trace trace = recorder.snapshot();
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].bytes, 4096);
  EXPECT_EQ(trace.events[0].stream, 2);
  EXPECT_EQ(trace.events[1].kind, EventKind::free);
  EXPECT_EQ(trace.tags[trace.events[1].tag], (Tag{Category::parameter, "fc.weight"}));
  EXPECT_EQ(trace.dropped, 0);
}

TEST(Recorder, KeepsTheLastEventsAndCountsTheOthers) {
  Recorder recorder(4);
  for (int id = 0; id < 10; ++id) recorder.record_alloc(id, 100 + id);
  const Trace trace = recorder.snapshot();
  ASSERT_EQ(trace.events.size(), 4u);
  EXPECT_EQ(trace.events.front().id, 6);
  EXPECT_EQ(trace.events.back().id, 9);
  EXPECT_EQ(trace.dropped, 6);
}

TEST(Recorder, HoldsExactlyItsCapacityWithoutDropping) {
  Recorder recorder(4);
  for (int id = 0; id < 4; ++id) recorder.record_alloc(id, 8);
  EXPECT_EQ(recorder.snapshot().events.size(), 4u);
  EXPECT_EQ(recorder.snapshot().dropped, 0);
}

TEST(Recorder, LeavesOutFreesWhoseAllocationWasOverwritten) {
  Recorder recorder(2);
  recorder.record_alloc(1, 8);
  recorder.record_alloc(2, 8);
  recorder.record_free(1, 8);
  const Trace trace = recorder.snapshot();  // the ring holds the allocation of 2 and the free of 1
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].id, 2);
  EXPECT_EQ(trace.dropped, 2);
}

TEST(Recorder, TakingEmptiesTheRingAndKeepsTheTags) {
  Recorder recorder(8);
  const uint32_t tag = recorder.intern(Category::input, "x");
  recorder.record_alloc(1, 8, tag);
  EXPECT_EQ(recorder.take().events.size(), 1u);
  EXPECT_TRUE(recorder.take().events.empty());
  EXPECT_EQ(recorder.intern(Category::input, "x"), tag);
}

TEST(Recorder, StampsEventsWithNanosecondsThatNeverRunBack) {
  Recorder recorder(100);
  recorder.record_alloc(1, 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  recorder.record_free(1, 8);
  const Trace trace = recorder.snapshot();
  const int64_t passed = trace.events[1].time_ns - trace.events[0].time_ns;
  EXPECT_GE(passed, 19'000'000);
  EXPECT_LT(passed, 10'000'000'000);
}

TEST(Recorder, OfNoCapacityRecordsNothing) {
  Recorder recorder(0);
  recorder.record_alloc(1, 8);
  EXPECT_TRUE(recorder.snapshot().events.empty());
  EXPECT_EQ(recorder.snapshot().dropped, 0);
}

TEST(Recorder, RefusesACapacityThatIsNone) {
  EXPECT_THROW(Recorder(-1), ArgumentError);
  EXPECT_THROW(Recorder(INT64_MAX), ArgumentError);
}

TEST(Recorder, LosesNothingBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kBlocks = 5'000;
  Recorder recorder(kThreads * kBlocks * 2);
  const auto work = [&](int thread) {
    for (int i = 0; i < kBlocks; ++i) {
      const uint32_t tag = recorder.intern(Category::activation, i % 2 == 0 ? "even" : "odd");
      const int64_t id = int64_t{i} * kThreads + thread;
      recorder.record_alloc(id, 64, tag);
      if (i % 1000 == 0) recorder.snapshot();
      recorder.record_free(id, 64, tag);
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  const Trace trace = recorder.take();
  EXPECT_EQ(trace.events.size(), size_t{kThreads * kBlocks * 2});
  EXPECT_EQ(trace.dropped, 0);
  EXPECT_TRUE(std::is_sorted(trace.events.begin(), trace.events.end(),
                             [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; }));
}

}  // namespace
}  // namespace plimsoll::trace

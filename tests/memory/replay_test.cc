#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/replay/policies.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::replay {
namespace {

using trace::EventKind;
using trace::Trace;

constexpr const char* kSharedTraces = PLIMSOLL_SOURCE_DIR "/../shared/data/traces/";

// Events as a test writes them: an allocation of so many bytes, or -1 to free what was allocated first of all alive.
Trace trace_of(const std::vector<int64_t>& steps, int16_t stream = 0) {
  Trace trace;
  std::vector<trace::Event> alive;
  for (const int64_t bytes : steps) {
    if (bytes > 0) {
      alive.push_back({.id = static_cast<int64_t>(trace.events.size()), .bytes = bytes, .stream = stream});
      trace.events.push_back(alive.back());
    } else {
      trace.events.push_back(alive.front());
      trace.events.back().kind = EventKind::free;
      alive.erase(alive.begin());
    }
  }
  return trace;
}

int64_t reserved(std::string_view policy, const Trace& trace) {
  return replay(trace, *make_policy(policy, {})).policy.reserved_peak_bytes;
}

OomReport failure(std::string_view policy, const Trace& trace, int64_t capacity) {
  try {
    replay(trace, *make_policy(policy, {.capacity = {capacity, "--capacity"}}));
  } catch (const ResourceExhausted& error) {
    return error.report();
  }
  ADD_FAILURE() << "everything fitted";
  return {};
}

TEST(ReplayTorch, ReservesSegmentsByTheSizeOfTheRequest) {
  EXPECT_EQ(reserved("torch", trace_of({1})), 2 * kMiB);
  EXPECT_EQ(reserved("torch", trace_of({kMiB})), 2 * kMiB);
  EXPECT_EQ(reserved("torch", trace_of({kMiB + 1})), 20 * kMiB);
  EXPECT_EQ(reserved("torch", trace_of({10 * kMiB - 512})), 20 * kMiB);
  EXPECT_EQ(reserved("torch", trace_of({10 * kMiB})), 10 * kMiB);
  EXPECT_EQ(reserved("torch", trace_of({11 * kMiB + 1})), 12 * kMiB);
}

TEST(ReplayTorch, PacksSmallRequestsInUnitsOf512Bytes) {
  EXPECT_EQ(reserved("torch", trace_of(std::vector<int64_t>(4096, 1))), 2 * kMiB);
  EXPECT_EQ(reserved("torch", trace_of(std::vector<int64_t>(4097, 1))), 4 * kMiB);
}

TEST(ReplayTorch, KeepsARemainderOfUpToOneMebibyteWithItsBlock) {
  // 20 MiB freed, then 19 MiB taken of it: 1 MiB remains, is not cut off, and cannot serve the next request.
  EXPECT_EQ(reserved("torch", trace_of({20 * kMiB, -1, 19 * kMiB, kMiB + 512})), 40 * kMiB);
  EXPECT_EQ(reserved("torch", trace_of({20 * kMiB, -1, 18 * kMiB, kMiB + 512})), 20 * kMiB);
}

TEST(ReplayTorch, JoinsFreeNeighbours) {
  EXPECT_EQ(reserved("torch", trace_of({6 * kMiB, 6 * kMiB, 6 * kMiB, -1, -1, -1, 20 * kMiB})), 20 * kMiB);
}

TEST(ReplayTorch, DoesNotShareFreeBlocksBetweenStreams) {
  Trace trace = trace_of({12 * kMiB, -1}, 0);
  const Trace other = trace_of({12 * kMiB}, 1);
  trace.events.insert(trace.events.end(), other.events.begin(), other.events.end());
  EXPECT_EQ(reserved("torch", trace), 24 * kMiB);
  EXPECT_EQ(reserved("bfc", trace), 16 * kMiB);
}

TEST(ReplayTorch, GivesFreeSegmentsBackWhenTheDeviceIsFull) {
  const Trace trace = trace_of({12 * kMiB, -1, 14 * kMiB});
  EXPECT_EQ(reserved("torch", trace), 26 * kMiB);
  const auto policy = make_policy("torch", {.capacity = {20 * kMiB, "--capacity"}});
  EXPECT_EQ(replay(trace, *policy).policy.reserved_peak_bytes, 14 * kMiB);
  EXPECT_EQ(policy->stats().pages_committed, 13);
}

TEST(ReplayTorch, ReservesWhatPyTorchMeasured) {
  const std::pair<const char*, int64_t> cases[] = {
      {"widecnn_b32", 7'105'150'976}, {"vgg16_b64", 11'993'612'288}, {"resnet50_b64", 7'065'305'088}};
  for (const auto& [name, measured] : cases) {
    const Trace trace = trace::read(fmt::format("{}/tests/data/traces/{}.csv.gz", PLIMSOLL_SOURCE_DIR, name));
    EXPECT_EQ(reserved("torch", trace), measured) << name;
  }
}

TEST(ReplayTorch, ReservesWhatPyTorchMeasuredOnAllSharedTraces) {
  std::ifstream file(std::string(kSharedTraces) + "measured.json");
  if (!file) GTEST_SKIP() << "no recorded traces at " << kSharedTraces;
  for (const auto& run : nlohmann::json::parse(file)) {
    const std::string name = run["case"];
    const Trace trace = trace::read(kSharedTraces + name + ".csv.gz");
    EXPECT_EQ(reserved("torch", trace), run["peak_reserved"].get<int64_t>()) << name;
  }
}

TEST(ReplayPool, ReservesLittleMoreThanIsLive) {
  for (const char* name : {"widecnn_b32", "vgg16_b64", "resnet50_b64"}) {
    const Trace trace = trace::read(fmt::format("{}/tests/data/traces/{}.csv.gz", PLIMSOLL_SOURCE_DIR, name));
    EXPECT_LE(replay(trace, *make_policy("pool", {})).ratio(), 1.01) << name;
  }
}

TEST(ReplayAsync, ReservesChunksOf32Mebibytes) {
  EXPECT_EQ(reserved("async", trace_of({1})), 32 * kMiB);
  EXPECT_EQ(reserved("async", trace_of({31 * kMiB, kMiB})), 32 * kMiB);
  EXPECT_EQ(reserved("async", trace_of({31 * kMiB, kMiB + 1})), 64 * kMiB);
  EXPECT_EQ(reserved("async", trace_of({1, 32 * kMiB - 511})), 64 * kMiB);  // 512 bytes are in use before it
}

TEST(ReplayAsync, MovesFreeChunksWhereMemoryIsMissing) {
  // 64 MiB are free at the beginning: two of the three chunks for 96 MiB at the end come from there.
  const Trace trace = trace_of({64 * kMiB, 64 * kMiB, 64 * kMiB, 64 * kMiB, -1, 96 * kMiB});
  const auto policy = make_policy("async", {});
  EXPECT_EQ(replay(trace, *policy).policy.reserved_peak_bytes, 288 * kMiB);
  EXPECT_EQ(policy->stats().pages_remapped, 32);
  EXPECT_EQ(policy->stats().remapping_allocations, 1);
}

TEST(ReplayAsync, JoinsHolesAndUsesThemAgain) {
  EXPECT_EQ(reserved("async", trace_of({64 * kMiB, 64 * kMiB, -1, -1, 128 * kMiB})), 128 * kMiB);
  EXPECT_EQ(reserved("async", trace_of({64 * kMiB, 64 * kMiB, -1, 32 * kMiB, 32 * kMiB})), 128 * kMiB);
}

TEST(ReplayAsync, ReportsWhatItHoldsWhenTheDeviceIsFull) {
  const OomReport report = failure("async", trace_of({64 * kMiB, 64 * kMiB, -1, 96 * kMiB}), 128 * kMiB);
  EXPECT_EQ(report.allocator, "async");
  EXPECT_EQ(report.requested_bytes, 96 * kMiB);
  EXPECT_EQ(report.reserved_bytes, 128 * kMiB);
}

TEST(ReplayAsync, ReservesAboutWhatAnH200Did) {
  const std::pair<const char*, int64_t> cases[] = {
      {"widecnn_b32", 3'556'769'792}, {"vgg16_b64", 7'482'638'336}, {"resnet50_b64", 6'543'114'240}};
  for (const auto& [name, measured] : cases) {
    const Trace trace = trace::read(fmt::format("{}/tests/data/traces/{}.csv.gz", PLIMSOLL_SOURCE_DIR, name));
    EXPECT_NEAR(static_cast<double>(reserved("async", trace)) / static_cast<double>(measured), 1, 0.04) << name;
  }
}

TEST(ReplayBfc, DoublesItsRegions) {
  EXPECT_EQ(reserved("bfc", trace_of({1})), 2 * kMiB);
  EXPECT_EQ(reserved("bfc", trace_of({2 * kMiB, 1})), 6 * kMiB);
  EXPECT_EQ(reserved("bfc", trace_of({5 * kMiB})), 8 * kMiB);
  // A region that was made for its request does not double the next one.
  EXPECT_EQ(reserved("bfc", trace_of({5 * kMiB, 5 * kMiB})), 16 * kMiB);
}

TEST(ReplayBfc, CutsChunksOfTwiceTheRequestOnly) {
  // The second request takes all 8 MiB of the region that the first one left, so the third needs another region.
  EXPECT_EQ(reserved("bfc", trace_of({8 * kMiB, -1, 5 * kMiB, 2 * kMiB})), 16 * kMiB);
  EXPECT_EQ(reserved("bfc", trace_of({8 * kMiB, -1, 4 * kMiB, 4 * kMiB})), 8 * kMiB);
}

TEST(ReplayBfc, TakesWhatIsLeftOfTheCapacity) {
  const auto policy = make_policy("bfc", {.capacity = {9 * kMiB, "--capacity"}});
  const Trace trace = trace_of({2 * kMiB, 4 * kMiB, 3 * kMiB});
  EXPECT_EQ(replay(trace, *policy).policy.reserved_peak_bytes, 9 * kMiB);
}

TEST(Replay, ReportsWhoHoldsWhatWhenTheDeviceIsFull) {
  Trace trace = trace_of({30 * kMiB, 12 * kMiB, 20 * kMiB});
  trace.events[0].tag = trace.tags.intern(Category::parameter, "fc.weight");
  for (const char* policy : {"pool", "torch", "bfc"}) {
    const OomReport report = failure(policy, trace, 50 * kMiB);
    EXPECT_EQ(report.allocator, policy);
    EXPECT_EQ(report.requested_bytes, 20 * kMiB);
    EXPECT_EQ(report.tag, "id 2 (event 3)");
    EXPECT_EQ(report.live_bytes, 42 * kMiB);
    EXPECT_EQ(report.live_by_category[static_cast<size_t>(Category::parameter)], 30 * kMiB);
    ASSERT_EQ(report.largest_live.size(), 2u);
    EXPECT_EQ(report.largest_live[0].tag, "fc.weight");
    EXPECT_EQ(report.budget.source, "--capacity");
    EXPECT_GE(report.reserved_bytes, 42 * kMiB);
  }
}

TEST(Replay, NamesTheCapacityThatWouldDo) {
  const Trace trace = trace_of({30 * kMiB, 12 * kMiB, 20 * kMiB});
  const OomReport report = failure("torch", trace, 50 * kMiB);
  EXPECT_EQ(report.help.at(0), fmt::format("this request needs a capacity of {} bytes", 62 * kMiB));
  const auto policy = make_policy("torch", {.capacity = {62 * kMiB, "--capacity"}});
  EXPECT_EQ(replay(trace, *policy).policy.reserved_peak_bytes, 62 * kMiB);
}

TEST(Replay, TellsFragmentationFromTooMuchLive) {
  // Two segments of 20 MiB hold three blocks each; 16 MiB are free, but in segments that are in use.
  const int64_t block = 6 * kMiB;
  const Trace trace = trace_of({block, block, block, block, block, block, -1, -1, 24 * kMiB});
  const OomReport report = failure("torch", trace, 60 * kMiB);
  EXPECT_EQ(report.live_bytes, 24 * kMiB);
  EXPECT_EQ(report.help.size(), 2u);
}

TEST(Replay, OfAnEmptyTraceIsEmpty) {
  const ReplayResult result = replay({}, *make_policy("torch", {}));
  EXPECT_EQ(result.policy.reserved_peak_bytes, 0);
  EXPECT_EQ(result.ratio(), 1);
  EXPECT_EQ(result.remapping_per_1000_events(), 0);
}

TEST(Replay, RefusesPoliciesPagesAndCapacitiesThatAreNone) {
  EXPECT_THROW(make_policy("malloc", {}), ArgumentError);
  EXPECT_THROW(make_policy("torch", {.page_bytes = 3000}), ArgumentError);
  EXPECT_THROW(make_policy("torch", {.page_bytes = 0}), ArgumentError);
  EXPECT_THROW(make_policy("torch", {.capacity = {0, "--capacity"}}), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::replay

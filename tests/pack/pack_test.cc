#include "plimsoll/pack/pack.h"

#include <gtest/gtest.h>

#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/pack/oracle.h"
#include "tests/pack/instances.h"

namespace plimsoll::pack {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr int kEffort = 1;
#elif defined(__has_feature)
constexpr int kEffort = 1;
#else
constexpr int kEffort = 10;
#endif

TEST(Pack, OfNothingIsNothing) {
  const auto packing = pack({});
  ASSERT_TRUE(packing);
  EXPECT_EQ(packing->peak_bytes, 0);
  EXPECT_TRUE(packing->optimal);
}

TEST(Pack, ReusesMemoryOfDeadBuffers) {
  const Buffers buffers = {{.bytes = 256, .first = 0, .end = 2}, {.bytes = 256, .first = 2, .end = 4}};
  const auto packing = pack(buffers, {.capacity = 256});
  ASSERT_TRUE(packing) << packing.why();
  EXPECT_EQ(packing->peak_bytes, 256);
  EXPECT_EQ(find_fault(buffers, packing->offsets), std::nullopt);
}

TEST(Pack, UsesTheGapsOfABuffer) {
  const Buffers buffers = {{.bytes = 100, .first = 0, .end = 10, .gaps = {{3, 6}}},
                           {.bytes = 100, .first = 3, .end = 6}};
  const auto packing = pack(buffers);
  EXPECT_EQ(packing->peak_bytes, 100);
  EXPECT_EQ(find_fault(buffers, packing->offsets), std::nullopt);
}

TEST(Pack, KeepsFixedOffsetsAndAlignments) {
  const Buffers buffers = {{.bytes = 10, .first = 0, .end = 4, .fixed_offset = 16},
                           {.bytes = 5, .first = 0, .end = 4, .alignment = 8},
                           {.bytes = 9, .first = 0, .end = 4, .alignment = 4}};
  const auto packing = pack(buffers);
  EXPECT_EQ(find_fault(buffers, packing->offsets), std::nullopt);
  EXPECT_EQ(packing->peak_bytes, 37);  // 5 at 0, the fixed one at 16, 9 at 28
  EXPECT_TRUE(packing->optimal);
}

TEST(Pack, SaysWhichBufferIsLargerThanTheCapacity) {
  const auto packing =
      pack(Buffers{{.bytes = 5, .first = 0, .end = 1}, {.bytes = 50, .first = 1, .end = 2}}, {.capacity = 49});
  EXPECT_EQ(packing.outcome, Result::Outcome::infeasible);
  EXPECT_EQ(packing.why(), "buffer 1 of 50 bytes is larger than the capacity of 49");
}

TEST(Pack, NamesTheMomentThatNeedsMoreThanTheCapacity) {
  const auto packing =
      pack(Buffers{{.bytes = 5, .first = 0, .end = 3}, {.bytes = 6, .first = 2, .end = 4}}, {.capacity = 10});
  EXPECT_EQ(packing.outcome, Result::Outcome::infeasible);
  EXPECT_EQ(packing.why(), "the capacity of 10 is too small: 11 B are alive at time 2 (11 bytes)");
}

TEST(Pack, RefusesFixedOffsetsThatCollide) {
  const auto packing = pack(Buffers{{.bytes = 5, .first = 0, .end = 3, .fixed_offset = 0},
                                    {.bytes = 5, .first = 0, .end = 1},
                                    {.bytes = 6, .first = 2, .end = 4, .fixed_offset = 4}});
  EXPECT_EQ(packing.outcome, Result::Outcome::infeasible);
  EXPECT_EQ(packing.why(), "the fixed offsets of buffers 0 and 2 collide at time 2");
  EXPECT_TRUE(packing->offsets.empty());
}

TEST(Pack, RejectsBuffersThatMakeNoSense) {
  const Buffers bad = {{.bytes = 0, .first = 0, .end = 1},
                       {.bytes = -4, .first = 0, .end = 1},
                       {.bytes = 4, .first = 1, .end = 1},
                       {.bytes = 4, .first = 0, .end = 1, .alignment = 0},
                       {.bytes = 4, .first = 0, .end = 1, .fixed_offset = -8},
                       {.bytes = 4, .first = 0, .end = 1, .alignment = 4, .fixed_offset = 6},
                       {.bytes = 4, .first = 0, .end = 9, .gaps = {{5, 7}, {2, 3}}},
                       {.bytes = 4, .first = 0, .end = 9, .gaps = {{5, 17}}},
                       {.bytes = 4, .first = 0, .end = 9, .gaps = {{0, 9}}},
                       {.bytes = INT64_MAX, .first = 0, .end = 9}};
  for (const Buffer& buffer : bad) EXPECT_THROW(pack({&buffer, 1}), ArgumentError) << buffer.bytes;
  EXPECT_THROW(pack(Buffers{{.bytes = 1, .first = 0, .end = 1}}, {.threads = 0}), ArgumentError);
  EXPECT_THROW(pack(Buffers{{.bytes = 1, .first = 0, .end = 1}}, {.capacity = -1}), ArgumentError);
}

void expect_same_as_exhaustive(const Spice& spice, uint64_t seed, int cases, int64_t most) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < cases; ++i) {
    const Buffers buffers = random_buffers(random, between(random, 1, most), spice);
    const auto packing = pack(buffers);
    ASSERT_EQ(static_cast<bool>(packing), packing_exists_below(buffers, INT64_MAX)) << "case " << i;
    if (!packing) continue;
    ASSERT_TRUE(packing->optimal) << "case " << i;
    ASSERT_EQ(find_fault(buffers, packing->offsets, packing->peak_bytes), std::nullopt) << "case " << i;
    ASSERT_FALSE(packing_exists_below(buffers, packing->peak_bytes)) << "case " << i;
    const auto tighter = pack(buffers, {.capacity = packing->peak_bytes - 1});
    ASSERT_EQ(tighter.outcome, Result::Outcome::infeasible) << "case " << i;
  }
}

TEST(Pack, FindsTheOptimumOfSmallInstances) { expect_same_as_exhaustive({}, 1, 400 * kEffort, 9); }
TEST(Pack, FindsTheOptimumOfTwelveBuffers) { expect_same_as_exhaustive({}, 2, 20 * kEffort, 12); }
TEST(Pack, FindsTheOptimumWithGaps) { expect_same_as_exhaustive({.gaps = true}, 3, 200 * kEffort, 9); }
TEST(Pack, FindsTheOptimumWithAlignments) { expect_same_as_exhaustive({.alignments = true}, 4, 200 * kEffort, 8); }
TEST(Pack, FindsTheOptimumWithFixedOffsets) { expect_same_as_exhaustive({.fixed = true}, 5, 200 * kEffort, 8); }
TEST(Pack, FindsTheOptimumWithEverything) {
  expect_same_as_exhaustive({.alignments = true, .gaps = true, .fixed = true}, 6, 200 * kEffort, 8);
}

TEST(Pack, GivesTheSameAnswersWithAnyInferenceSwitchedOff) {
  bool Inference::*const switches[] = {&Inference::not_first, &Inference::support,     &Inference::dominance,
                                       &Inference::symmetry,  &Inference::backjumping, &Inference::nogoods,
                                       &Inference::leave_out, &Inference::local_proof};
  std::mt19937_64 random(11);
  for (int i = 0; i < 30 * kEffort; ++i) {
    const Spice spice{.alignments = i % 4 == 1, .gaps = i % 4 == 2, .fixed = i % 4 == 3};
    const Buffers buffers = random_buffers(random, 8, spice);
    const Result expected = pack(buffers);
    for (bool Inference::*const off : switches) {
      Options options{.time_limit_s = 600, .node_limit = 1'000'000};
      options.inference.*off = false;
      const Result result = pack(buffers, options);
      ASSERT_EQ(result.outcome, expected.outcome) << "case " << i;
      ASSERT_EQ(result->peak_bytes, expected->peak_bytes) << "case " << i;
      ASSERT_EQ(result->optimal, expected->optimal) << "case " << i;
    }
  }
}

TEST(Pack, StartsFromAHint) {
  std::mt19937_64 random(12);
  Buffers buffers = planted(random, 200, 100, 1024);
  Options options{.capacity = 1024, .time_limit_s = 600, .node_limit = 1'000'000};
  const Result before = pack(buffers, options);
  ASSERT_TRUE(before) << before.why();
  buffers[7].bytes -= buffers[7].bytes > 1 ? 1 : 0;
  options.hints = {&before.best, 1};
  const Result after = pack(buffers, options);
  ASSERT_TRUE(after) << after.why();
  EXPECT_EQ(find_fault(buffers, after->offsets, 1024), std::nullopt);
  EXPECT_EQ(after->nodes, 0);
}

TEST(Pack, NeverEndsHigherThanAGoodHintOfManyBuffers) {
  std::mt19937_64 random(13);
  Buffers buffers = planted_in_place(random, 6000, 3000, 1024);
  Packing hint;
  for (Buffer& buffer : buffers) hint.offsets.push_back(*std::exchange(buffer.fixed_offset, {}));
  const Result after = pack(buffers, {.hints = {&hint, 1}});
  EXPECT_EQ(after->peak_bytes, 1024);
  EXPECT_EQ(find_fault(buffers, after->offsets, 1024), std::nullopt);
}

// Two buffers at the start change places with the gap that one of them leaves; the rest of the hint stays good.
TEST(Pack, RepairsAHintAroundACollision) {
  const Buffers buffers = {{.bytes = 6, .first = 0, .end = 2},
                           {.bytes = 5, .first = 1, .end = 3},
                           {.bytes = 4, .first = 2, .end = 9},
                           {.bytes = 7, .first = 6, .end = 9}};
  const std::vector<Packing> hints = {{.offsets = {0, 4, 0, 4}}};
  const Result result = pack(buffers, {.capacity = 11, .hints = hints});
  ASSERT_TRUE(result) << result.why();
  EXPECT_EQ(find_fault(buffers, result->offsets, 11), std::nullopt);
}

// The lowest one grew, and all above it touch; only from the top down is there room to give way.
TEST(Pack, RepairsAHintFromTheTop) {
  const Buffers buffers = {{.bytes = 3, .first = 0, .end = 4},
                           {.bytes = 4, .first = 0, .end = 2},
                           {.bytes = 5, .first = 2, .end = 4},
                           {.bytes = 3, .first = 1, .end = 3}};
  const std::vector<Packing> hints = {{.offsets = {0, 2, 2, 7}}};
  const Result result = pack(buffers, {.capacity = 11, .node_limit = 0, .hints = hints});
  ASSERT_TRUE(result) << result.why();
  EXPECT_EQ(find_fault(buffers, result->offsets, 11), std::nullopt);
}

// Planted so that no pass over the buffers packs them.
const Options kDecidePlanted{.capacity = 1024, .time_limit_s = 600, .node_limit = 1'000'000};

TEST(Pack, TriesOneHintAfterTheOther) {
  std::mt19937_64 random(12);
  const Buffers buffers = planted(random, 200, 100, 1024);
  const std::vector<int64_t> none(buffers.size(), -1);
  const std::vector<Packing> hints = {{.offsets = none}, *pack(buffers, kDecidePlanted)};
  Options options = kDecidePlanted;
  options.node_limit = 0;
  options.hints = hints;
  EXPECT_TRUE(pack(buffers, options));
  options.hints = options.hints.first(1);
  EXPECT_FALSE(pack(buffers, options));
}

// Without joins, which have no recipe.
TEST(Pack, SearchesAgainInTheWayThatFoundAHint) {
  std::mt19937_64 random(12);
  const Buffers buffers = planted(random, 200, 100, 1024);
  Options options = kDecidePlanted;
  options.inference.joins = false;
  const Result before = pack(buffers, options);
  ASSERT_EQ(before->recipes.size(), 1U);
  EXPECT_LT(before->recipes[0].nodes, before->nodes) << "found by the first run, which shows nothing";
  const std::vector<Packing> hints = {
      {.offsets = std::vector<int64_t>(buffers.size(), -1), .recipes = before->recipes}};
  options.hints = hints;
  const Result again = pack(buffers, options);
  ASSERT_TRUE(again) << again.why();
  EXPECT_EQ(again->nodes, before->recipes[0].nodes);
  EXPECT_EQ(again->offsets, before->offsets);
}

TEST(Pack, PacksVariously) {
  std::mt19937_64 random(12);
  const Buffers buffers = planted(random, 100, 50, 1024);
  const std::vector<Packing> packings = pack_variously(buffers, 4, kDecidePlanted);
  ASSERT_EQ(packings.size(), 4U);
  for (size_t i = 0; i < packings.size(); ++i) {
    EXPECT_EQ(find_fault(buffers, packings[i].offsets, 1024), std::nullopt) << i;
    for (size_t j = 0; j < i; ++j) EXPECT_NE(packings[i].offsets, packings[j].offsets) << i << " and " << j;
  }
}

TEST(Pack, PacksOnlyInOneWayWhatNeedsNoSearch) {
  EXPECT_TRUE(pack_variously(Buffers{{.bytes = 256, .first = 0, .end = 2}}, 4).empty());
}

TEST(Pack, RejectsHintsOfOtherBuffers) {
  const std::vector<Packing> hints = {{.offsets = {0, 1}}};
  EXPECT_THROW(pack(Buffers{{.bytes = 1, .first = 0, .end = 1}}, {.hints = hints}), ArgumentError);
}

// So many that first fit looks only at those that live with a buffer.
TEST(Pack, PacksThousandsOfBuffersOfEveryKind) {
  std::mt19937_64 random(14);
  for (const bool spiced : {false, true}) {
    Buffers buffers;
    for (int64_t i = 0; i < 6000; ++i) {
      Buffer buffer{.bytes = 16 * between(random, 1, 100), .first = i};
      buffer.end = i + 3 + (random() % 50 == 0 ? between(random, 1, 4000) : between(random, 1, 40));
      if (spiced && i % 3 == 0) buffer.gaps = {{buffer.first + 1, buffer.first + 2}};
      if (spiced && i % 5 == 0) buffer.alignment = 48;
      buffers.push_back(buffer);
    }
    const auto packing = pack(buffers, {.time_limit_s = 600, .node_limit = 0});
    ASSERT_EQ(find_fault(buffers, packing->offsets, packing->peak_bytes), std::nullopt) << spiced;
    EXPECT_LE(static_cast<double>(packing->peak_bytes), 1.1 * static_cast<double>(packing->lower_bound_bytes));
  }
}

TEST(Pack, TakesHintsThatAreNoUse) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 20 * kEffort; ++i) {
    const Buffers buffers = random_buffers(random, 10, {.alignments = true, .gaps = true});
    std::vector<Packing> hints(2);
    for (Packing& hint : hints) {
      for (size_t b = 0; b < buffers.size(); ++b) hint.offsets.push_back(between(random, -1, 20));
      hint.offsets[0] = i % 3 == 0 ? INT64_MAX : i % 3 == 1 ? INT64_MIN : 0;
      hint.recipes = {{Strategy::lowest, {5, 5, -1, INT32_MAX}, i % 2 == 0 ? INT64_MAX : -1}};
    }
    const Result result = pack(buffers, {.hints = hints});
    ASSERT_EQ(result->peak_bytes, pack(buffers)->peak_bytes) << "case " << i;
    ASSERT_EQ(find_fault(buffers, result->offsets, result->peak_bytes), std::nullopt) << "case " << i;
  }
}

TEST(Pack, FindsPlantedPerfectPackings) {
  std::mt19937_64 random(7);
  for (const int64_t count : {50, 100, 200, 500}) {
    const Buffers buffers = planted(random, count, count / 2, 1024);
    const auto packing = pack(buffers, {.capacity = 1024, .time_limit_s = 600, .node_limit = 1'000'000});
    ASSERT_TRUE(packing) << count << ": " << packing.why();
    EXPECT_TRUE(packing->optimal);
    EXPECT_EQ(find_fault(buffers, packing->offsets, 1024), std::nullopt);
  }
}

// Cut of all shapes: long and short, of few moments and of many, from few bytes and from many.
TEST(Pack, FindsPerfectPackingsOfHundredsOfBuffersByJoins) {
  std::mt19937_64 random(17);
  for (const int64_t times : {60, 400, 5000}) {
    for (const int64_t bytes : {1 << 9, 1 << 20}) {
      const Buffers buffers = planted(random, 400, times, bytes);
      const auto packing = pack(buffers, {.capacity = bytes, .time_limit_s = 600, .node_limit = 200'000});
      EXPECT_TRUE(packing) << times << " by " << bytes << ": " << packing.why();
      EXPECT_EQ(find_fault(buffers, packing->offsets, packing->peak_bytes), std::nullopt);
    }
  }
}

TEST(Pack, ComesNearTheOptimumOfFifteenHundredBuffers) {
  std::mt19937_64 random(18);
  for (const int64_t times : {750, 15000}) {
    constexpr int64_t kOptimum = 1 << 20;
    const Buffers buffers = planted(random, 1500, times, kOptimum);
    const auto packing = pack(buffers, {.time_limit_s = 600, .node_limit = 20'000});
    EXPECT_LE(packing->peak_bytes, kOptimum * 105 / 100) << times;
    EXPECT_EQ(find_fault(buffers, packing->offsets, packing->peak_bytes), std::nullopt);
  }
}

TEST(Pack, IsTheSameForOneSeedAndThreadCount) {
  std::mt19937_64 random(8);
  Buffers buffers = planted(random, 300, 175, 4096);
  for (size_t i = 0; i < buffers.size(); i += 10) ++buffers[i].bytes;
  for (const int threads : {1, 2, 3}) {
    const Options options{.time_limit_s = 600, .node_limit = 12000, .threads = threads, .seed = 5};
    const Result once = pack(buffers, options);
    const Result again = pack(buffers, options);
    EXPECT_FALSE(once->optimal) << "solved too soon to show anything";
    EXPECT_EQ(once->offsets, again->offsets) << threads;
    EXPECT_EQ(once->nodes, again->nodes) << threads;
  }
}

TEST(Pack, PacksTrainingStepsWithinOnePercent) {
  std::mt19937_64 random(9);
  const Buffers buffers = training_step(random, 100);
  const auto packing = pack(buffers, {.time_limit_s = 600, .node_limit = 2000});
  EXPECT_EQ(find_fault(buffers, packing->offsets, packing->peak_bytes), std::nullopt);
  EXPECT_LE(static_cast<double>(packing->peak_bytes), 1.01 * static_cast<double>(packing->lower_bound_bytes));
}

TEST(Pack, GivesTheBestFoundWhenTimeIsUp) {
  std::mt19937_64 random(10);
  const Buffers buffers = planted(random, 300, 100, 1024);
  const auto packing = pack(buffers, {.capacity = 1024, .node_limit = 10});
  EXPECT_EQ(packing.outcome, Result::Outcome::out_of_time);
  EXPECT_GT(packing->peak_bytes, 1024);
  EXPECT_EQ(find_fault(buffers, packing->offsets, packing->peak_bytes), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::pack

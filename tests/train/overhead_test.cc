// What a process takes beside its arena: the model that budgets are cut by.
#include "plimsoll/train/overhead.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/process.h"

namespace plimsoll::train {
namespace {

TEST(Overhead, LeavesTheLargestArenaThatTheBudgetHolds) {
  for (const int64_t budget : {40 * kMiB, 168'902'656L, 3 * kGiB + 1, 200 * kGiB}) {
    const int64_t arena = arena_within(budget, 30 * kMiB);
    EXPECT_LE(process_bytes(arena, 30 * kMiB), budget);
    EXPECT_GT(process_bytes(arena + 1, 30 * kMiB), budget);
  }
  EXPECT_LT(arena_within(kMiB, 30 * kMiB), 0);
}

TEST(Overhead, CountsTheTablesOfTheKernel) {
  constexpr int64_t kArena = kGiB;
  constexpr int64_t kPageTables = kArena / 4096 * 8;
  constexpr int64_t kIndex = kArena / 4096 * 9;
  EXPECT_GE(arena_with_tables(kArena), kArena + kPageTables + kIndex);
  EXPECT_LE(arena_with_tables(kArena), kArena + kArena / 200);
}

TEST(Overhead, IsBookedTheSameWhateverASmallProcessHolds) {
  const Bound bound{.steps = 600, .threads = 2};
  const int64_t booked = booked_overhead(bound, 0);
  EXPECT_EQ(booked_overhead(bound, booked / 2), booked);
  EXPECT_GT(booked_overhead({.steps = 700, .threads = 2}, 0), booked);
  EXPECT_GT(booked_overhead({.steps = 600, .threads = 4}, 0), booked);
}

TEST(Overhead, IsBookedBesideWhatALargeProcessHolds) {
  const Bound bound{.steps = 600, .threads = 2};
  EXPECT_GT(booked_overhead(bound, kGiB), kGiB);
}

TEST(Overhead, HoldsWhatTheHeapHolds) {
  const Bound bound{.steps = 10, .threads = 1};
  const int64_t before = measured_overhead(bound);
  std::vector<std::byte> held(32 * kMiB, std::byte{1});
  const int64_t after = measured_overhead(bound);
  EXPECT_GE(after - before, 32 * kMiB);
  EXPECT_LE(after - before, 34 * kMiB);
  EXPECT_EQ(held.back(), std::byte{1});
}

TEST(Overhead, CodeIsMoreThanWhatIsTouchedOfIt) {
  EXPECT_GT(code_bytes(), process_memory().file_bytes / 2);
  EXPECT_GT(process_memory().file_bytes, 0);
}

}  // namespace
}  // namespace plimsoll::train

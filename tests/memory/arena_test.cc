#include "plimsoll/memory/arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/memory/file_pages.h"
#include "tests/memory/failing_pages.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

TEST(Arena, IsOneRangeOfWritableMemory) {
  FilePages pages = FilePages::host(4 * kKiB);
  const Arena arena(pages, 100'000, {kMiB, "test"});
  EXPECT_EQ(arena.bytes(), 100'000);
  EXPECT_EQ(arena.reserved_bytes(), 25 * 4 * kKiB);
  std::memset(arena.data(), 7, 100'000);
  EXPECT_EQ(arena.data()[99'999], std::byte{7});
}

// The kernel's tables of its pages belong to a budget: they are there before the first step.
TEST(Arena, TakesNoFaultsWhenItIsTouched) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  constexpr int64_t kBytes = 16 * kMiB;
  FilePages pages = FilePages::host(4 * kKiB);
  const Arena arena(pages, kBytes, {kBytes, "test"});
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  std::memset(arena.data(), 7, kBytes);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_minflt - before.ru_minflt, kBytes / (4 * kKiB) / 10);
}

TEST(Arena, GivesEverythingBack) {
  StrictPages pages(4 * kKiB, kMiB);
  { const Arena arena(pages, kMiB, {kMiB, "test"}); }
  EXPECT_TRUE(pages.nothing_left());
}

TEST(Arena, IsAddressesAloneUntilItTakesItsPages) {
  StrictPages pages(4 * kKiB, kMiB);
  {
    Arena arena(pages, kMiB, {kMiB, "test"}, Arena::Pages::later);
    EXPECT_NE(arena.data(), nullptr);
    Arena other(pages, kMiB, {kMiB, "test"});  // all that there are
    EXPECT_THROW(arena.take_pages(), ResourceExhausted);
  }
  EXPECT_TRUE(pages.nothing_left());
  FilePages host = FilePages::host(4 * kKiB);
  Arena arena(host, kMiB, {kMiB, "test"}, Arena::Pages::later);
  std::byte* const before = arena.data();
  arena.take_pages();
  EXPECT_EQ(arena.data(), before);
  arena.data()[kMiB - 1] = std::byte{7};
}

TEST(Arena, OfNoBytesTakesNothing) {
  FilePages pages = FilePages::host(4 * kKiB);
  const Arena arena(pages, 0, {kMiB, "test"});
  EXPECT_EQ(arena.reserved_bytes(), 0);
}

TEST(Arena, AboveItsBudgetIsRefusedWithTheBudgetThatWouldDo) {
  StrictPages pages(4 * kKiB, kGiB);
  try {
    const Arena arena(pages, kMiB + 1, {kMiB, "--budget"});
    FAIL() << "an arena above its budget";
  } catch (const ResourceExhausted& error) {
    EXPECT_EQ(error.report().requested_bytes, kMiB + 1);
    EXPECT_EQ(error.report().budget.source, "--budget");
    EXPECT_EQ(error.report().help.at(0), "a budget of 1.00 MiB (1,052,672 B)");
  }
  EXPECT_TRUE(pages.nothing_left());
}

TEST(Arena, RefusesSizesThatAreNone) {
  StrictPages pages(4 * kKiB, kGiB);
  EXPECT_THROW(Arena(pages, -1, {kMiB, "test"}), ArgumentError);
  EXPECT_THROW(Arena(pages, INT64_MAX, {kMiB, "test"}), ResourceExhausted);
}

TEST(Arena, LeavesNothingBehindWhenTheDeviceRefuses) {
  FailingPages pages(4 * kKiB, kMiB);
  pages.fail_create_at(1);
  EXPECT_THROW(Arena(pages, kMiB, {kMiB, "test"}), ResourceExhausted);
  pages.fail_reserve_at(1);
  EXPECT_THROW(Arena(pages, kMiB, {kMiB, "test"}), SystemError);
  pages.fail_map_at(1);
  EXPECT_THROW(Arena(pages, kMiB, {kMiB, "test"}), SystemError);
  EXPECT_TRUE(pages.nothing_left());
}

}  // namespace
}  // namespace plimsoll

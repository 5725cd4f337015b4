#include "plimsoll/memory/simulated_pages.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

TEST(SimulatedPages, OfALargeCardFitOnASmallMachine) {
  SimulatedPages pages(2 * kMiB, 139 * kGiB);
  std::vector<PageId> ids(139 * 512);
  pages.create(ids);
  EXPECT_EQ(pages.created_pages(), 139 * 512);
}

TEST(SimulatedPages, EndAtTheirCapacityAllOrNone) {
  SimulatedPages pages(kMiB, 3 * kMiB + 5);
  std::vector<PageId> ids(2);
  pages.create(ids);
  EXPECT_THROW(pages.create(ids), PagesExhausted);
  EXPECT_EQ(pages.created_pages(), 2);
  pages.create(std::span(ids).first(1));
}

TEST(SimulatedPages, AreUsedAgainAfterDestroy) {
  SimulatedPages pages(kMiB, kMiB);
  PageId id = 7;
  pages.create(std::span(&id, 1));
  pages.destroy(std::span(&id, 1));
  EXPECT_EQ(pages.created_pages(), 0);
  pages.create(std::span(&id, 1));
  EXPECT_EQ(pages.created_pages(), 1);
}

TEST(SimulatedPages, CountEachMapping) {
  SimulatedPages pages(kMiB, 4 * kMiB);
  std::vector<PageId> ids(2);
  pages.create(ids);
  std::byte* const range = pages.reserve(4 * kMiB);
  pages.map(range, ids);
  pages.map(range + 2 * kMiB, ids);
  EXPECT_EQ(pages.mapped_pages(), 4);
  pages.unmap(range, 4);
  EXPECT_EQ(pages.mapped_pages(), 0);
}

TEST(SimulatedPages, HaveRangesThatDoNotOverlap) {
  SimulatedPages pages(kMiB, 4 * kMiB);
  std::byte* const first = pages.reserve(kMiB + 1);
  EXPECT_GE(pages.reserve(kMiB), first + 2 * kMiB);
}

TEST(SimulatedPages, RefusePagesThatAreNoPowerOfTwo) {
  EXPECT_THROW(SimulatedPages(3000, kMiB), ArgumentError);
  EXPECT_THROW(SimulatedPages(128, kMiB), ArgumentError);
  EXPECT_THROW(SimulatedPages(0, kMiB), ArgumentError);
  EXPECT_THROW(SimulatedPages(-4096, kMiB), ArgumentError);
}

}  // namespace
}  // namespace plimsoll

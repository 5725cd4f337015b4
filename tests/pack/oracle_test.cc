#include "plimsoll/pack/oracle.h"

#include <gtest/gtest.h>

namespace plimsoll::pack {
namespace {

using Offsets = std::vector<int64_t>;

const std::vector<Buffer> kTwo = {{.bytes = 10, .first = 0, .end = 5}, {.bytes = 10, .first = 3, .end = 8}};

Fault::Kind kind_of(const std::vector<Buffer>& buffers, const Offsets& offsets, int64_t capacity = INT64_MAX) {
  const auto fault = find_fault(buffers, offsets, capacity);
  EXPECT_TRUE(fault);
  return fault.value_or(Fault{}).kind;
}

TEST(Oracle, AcceptsBuffersSideBySide) { EXPECT_EQ(find_fault(kTwo, Offsets{0, 10}, 20), std::nullopt); }

TEST(Oracle, SeesOverlapsFromBothSides) {
  EXPECT_EQ(find_fault(kTwo, Offsets{0, 9}), (Fault{Fault::Kind::overlap, 0, 1, 3}));
  EXPECT_EQ(find_fault(kTwo, Offsets{9, 0}), (Fault{Fault::Kind::overlap, 0, 1, 3}));
  EXPECT_EQ(find_fault(kTwo, Offsets{4, 4})->text(), "buffers 0 and 1 overlap at time 3");
}

TEST(Oracle, SeesASmallBufferInsideALargeOne) {
  const std::vector<Buffer> buffers = {{.bytes = 100, .first = 0, .end = 5}, {.bytes = 1, .first = 2, .end = 3}};
  EXPECT_EQ(kind_of(buffers, {0, 50}), Fault::Kind::overlap);
}

TEST(Oracle, LetsOneBufferFollowAnotherAtTheSameTime) {
  const std::vector<Buffer> buffers = {{.bytes = 8, .first = 0, .end = 3}, {.bytes = 8, .first = 3, .end = 5}};
  EXPECT_EQ(find_fault(buffers, Offsets{0, 0}), std::nullopt);
}

TEST(Oracle, KnowsThatABufferIsBackAfterItsGap) {
  std::vector<Buffer> buffers = {{.bytes = 8, .first = 0, .end = 9, .gaps = {{3, 6}}},
                                 {.bytes = 8, .first = 3, .end = 6}};
  EXPECT_EQ(find_fault(buffers, Offsets{0, 0}), std::nullopt);
  buffers[1].end = 7;
  EXPECT_EQ(find_fault(buffers, Offsets{0, 0}), (Fault{Fault::Kind::overlap, 0, 1, 6}));
}

TEST(Oracle, ChecksCapacityAlignmentAndFixedOffsets) {
  EXPECT_EQ(kind_of(kTwo, {0, 10}, 19), Fault::Kind::beyond_capacity);
  EXPECT_EQ(kind_of(kTwo, {-1, 10}), Fault::Kind::negative);
  EXPECT_EQ(kind_of(kTwo, {0}), Fault::Kind::count);
  EXPECT_EQ(kind_of({{.bytes = 4, .first = 0, .end = 1, .alignment = 8}}, {4}), Fault::Kind::misaligned);
  EXPECT_EQ(kind_of({{.bytes = 4, .first = 0, .end = 1, .fixed_offset = 8}}, {4}), Fault::Kind::moved);
}

TEST(Oracle, DoesNotOverflowAtTheEndOfTheRange) {
  EXPECT_EQ(kind_of({{.bytes = 10, .first = 0, .end = 1}}, {INT64_MAX - 3}), Fault::Kind::beyond_capacity);
}

}  // namespace
}  // namespace plimsoll::pack

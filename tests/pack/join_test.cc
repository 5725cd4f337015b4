#include "plimsoll/pack/join.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/pack/oracle.h"
#include "tests/pack/instances.h"

namespace plimsoll::pack {
namespace {

Placement packed(const Instance& instance) { return pack_at_once(instance); }

TEST(Joins, StackBuffersOfOneLifetime) {
  const Buffers buffers = {{.bytes = 3, .first = 0, .end = 4}, {.bytes = 5, .first = 0, .end = 4}};
  const Instance instance = make_instance(buffers);
  const Joins joins(instance, 0, false, 1);
  ASSERT_EQ(joins.left(), 1);
  EXPECT_EQ(joins.instance().sizes, std::vector<int64_t>{8});
  EXPECT_EQ(find_fault(buffers, joins.expanded(packed(joins.instance())).offsets, 8), std::nullopt);
}

TEST(Joins, ChainBuffersOfOneSize) {
  const Buffers buffers = {{.bytes = 3, .first = 0, .end = 4}, {.bytes = 3, .first = 4, .end = 6}};
  const Instance instance = make_instance(buffers);
  const Joins joins(instance, 0, false, 1);
  ASSERT_EQ(joins.left(), 1);
  EXPECT_EQ(joins.expanded({.offsets = {7}, .peak = 10}).offsets, (std::vector<int64_t>{7, 7}));
}

TEST(Joins, FindPinwheels) {
  const Buffers buffers = {{.bytes = 6, .first = 0, .end = 2},
                           {.bytes = 2, .first = 0, .end = 5},
                           {.bytes = 5, .first = 5, .end = 9},
                           {.bytes = 3, .first = 2, .end = 9},
                           {.bytes = 3, .first = 2, .end = 5}};
  const Instance instance = make_instance(buffers);
  const Joins joins(instance, 0, false, 1);
  ASSERT_EQ(joins.left(), 1);
  EXPECT_EQ(find_fault(buffers, joins.expanded({.offsets = {0}, .peak = 8}).offsets, 8), std::nullopt);
}

// Two buffers of the upper half are missing; the holes they left complete what is next to them.
TEST(Joins, FillHoles) {
  const Buffers buffers = {{.bytes = 3, .first = 0, .end = 9},
                           {.bytes = 4, .first = 2, .end = 5},
                           {.bytes = 1, .first = 0, .end = 2},
                           {.bytes = 4, .first = 7, .end = 9}};
  const Instance instance = make_instance(buffers);
  EXPECT_GT(Joins(instance, 0, false, 1).left(), 1);
  const Joins joins(instance, 7, false, 1);
  ASSERT_EQ(joins.left(), 1);
  EXPECT_EQ(find_fault(buffers, joins.expanded({.offsets = {0}, .peak = 7}).offsets, 7), std::nullopt);
}

// The second of a chain is a little smaller, and another one lives with it.
TEST(Joins, AreLooseWhereTheLoadAllowsIt) {
  const Buffers buffers = {{.bytes = 100, .first = 0, .end = 4},
                           {.bytes = 97, .first = 4, .end = 8},
                           {.bytes = 50, .first = 6, .end = 12},
                           {.bytes = 30, .first = 9, .end = 12}};
  const Instance instance = make_instance(buffers);
  EXPECT_EQ(Joins(instance, 149, true, 1).left(), 4);
  const Joins joins(instance, 150, true, 1);
  ASSERT_EQ(joins.left(), 3);
  EXPECT_EQ(find_fault(buffers, joins.expanded(packed(joins.instance())).offsets, 150), std::nullopt);
}

TEST(Joins, LeaveApartWhatHasNoSideInCommon) {
  const Buffers buffers = {{.bytes = 3, .first = 0, .end = 4},
                           {.bytes = 4, .first = 4, .end = 6},
                           {.bytes = 3, .first = 5, .end = 7},
                           {.bytes = 2, .first = 0, .end = 5}};
  EXPECT_EQ(Joins(make_instance(buffers), 0, false, 1).left(), 4);
}

// However often they are varied, what is left packs all buffers, and never grows.
TEST(Joins, ExpandToAPackingOfAllBuffers) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    const Buffers buffers = planted(random, 60, 20 + i, 50);
    const Instance instance = make_instance(buffers);
    Joins joins(instance, 0, false, 1);
    for (int step = 0; step < 600; ++step) {
      const int32_t before = joins.left();
      joins.vary();
      ASSERT_LE(joins.left(), before);
      if (step % 20 != 0) continue;
      const Placement placement = joins.expanded(packed(joins.instance()));
      const auto fault = find_fault(buffers, placement.offsets, placement.peak);
      ASSERT_EQ(fault, std::nullopt) << fault->text() << " in case " << i << " after step " << step;
    }
  }
}

TEST(Joins, VariedLeaveLess) {
  std::mt19937_64 random(4);
  const Buffers buffers = planted(random, 300, 200, 1 << 20);
  const Instance instance = make_instance(buffers);
  Joins joins(instance, 0, false, 1);
  const int32_t before = joins.left();
  ASSERT_GT(before, 1) << "joined at once, which shows nothing";
  for (int step = 0; step < 20'000 && joins.left() > 1; ++step) joins.vary();
  EXPECT_EQ(joins.left(), 1) << "of " << before;
}

}  // namespace
}  // namespace plimsoll::pack

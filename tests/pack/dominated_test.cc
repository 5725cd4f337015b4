#include "plimsoll/pack/dominated.h"

#include <gtest/gtest.h>

#include "tests/pack/instances.h"

namespace plimsoll::pack {
namespace {

// Two buffers of 3 leave three gaps of 4 units together, so one holds 2; without that third buffer, they are free too.
TEST(Dominated, LeavesOutWhatFitsWhereverTheOthersLie) {
  Buffers buffers = {{.bytes = 3, .first = 0, .end = 2}, {.bytes = 3, .first = 0, .end = 2}};
  buffers.push_back({.bytes = 2, .first = 0, .end = 1});
  EXPECT_EQ(dominated(make_instance(buffers), 10), (std::vector<int32_t>{2, 0, 1}));
  buffers[2].bytes = 4;
  EXPECT_EQ(dominated(make_instance(buffers), 10), (std::vector<int32_t>{}));
}

TEST(Dominated, KeepsWhatIsAlignedOrFixed) {
  Buffers buffers = {{.bytes = 3, .first = 0, .end = 2, .alignment = 2}};
  EXPECT_TRUE(dominated(make_instance(buffers), 100).empty());
  buffers[0] = {.bytes = 3, .first = 0, .end = 2, .fixed_offset = 6};
  EXPECT_TRUE(dominated(make_instance(buffers), 100).empty());
}

}  // namespace
}  // namespace plimsoll::pack

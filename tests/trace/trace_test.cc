#include "plimsoll/trace/trace.h"

#include <gtest/gtest.h>

namespace plimsoll::trace {
namespace {

TEST(TagTable, InternsEachTagOnce) {
  TagTable tags;
  const uint32_t weight = tags.intern(Category::parameter, "fc.weight");
  EXPECT_EQ(tags.intern(Category::parameter, "fc.weight"), weight);
  EXPECT_NE(tags.intern(Category::gradient, "fc.weight"), weight);
  EXPECT_EQ(tags.intern(Category::other, ""), 0u);
  EXPECT_EQ(tags[weight].name, "fc.weight");
  EXPECT_EQ(tags.size(), 3u);
}

TEST(Trace, PeakIsTheMostAliveAtOnce) {
  Trace trace;
  trace.events = {{.id = 0, .bytes = 100},
                  {.id = 1, .bytes = 50},
                  {.id = 0, .bytes = 100, .kind = EventKind::free},
                  {.id = 2, .bytes = 80}};
  EXPECT_EQ(live_peak_bytes(trace), 150);
}

}  // namespace
}  // namespace plimsoll::trace

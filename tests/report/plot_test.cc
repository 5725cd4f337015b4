#include "plimsoll/report/plot.h"

#include <gtest/gtest.h>

namespace plimsoll::report {
namespace {

TEST(Plot, FillsColumnsFromBelowInEighths) {
  const std::vector<int64_t> heights = {0, 1, 8, 12, 16};
  EXPECT_EQ(plot(heights, 5, 2), (std::vector<std::string>{"   ▄█", " ▁███"}));
}

TEST(Plot, ShowsTheLargestOfTheTimesThatShareAColumn) {
  const std::vector<int64_t> heights = {0, 8, 0, 0, 4, 0};
  EXPECT_EQ(plot(heights, 3, 1), (std::vector<std::string>{"█ ▄"}));
  EXPECT_EQ(column_of(4, heights.size(), 3), 2);
}

TEST(Plot, StretchesFewTimesOverTheColumns) {
  const std::vector<int64_t> heights = {8, 4};
  EXPECT_EQ(plot(heights, 4, 1), (std::vector<std::string>{"██▄▄"}));
  EXPECT_EQ(column_of(0, heights.size(), 4), 0);
  EXPECT_EQ(column_of(1, heights.size(), 4), 2);
}

TEST(Plot, IsEmptyForNoTimes) { EXPECT_EQ(plot({}, 4, 2), (std::vector<std::string>{"", ""})); }

}  // namespace
}  // namespace plimsoll::report

#include "plimsoll/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"

namespace plimsoll::train {
namespace {

TEST(Schedule, WarmsUpInALineAndThenGoesDownAsHalfACosine) {
  const Schedule schedule{.kind = ScheduleKind::cosine, .rate = 2, .steps = 15, .warmup = 4};
  EXPECT_DOUBLE_EQ(schedule.rate_of(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate_of(4), 2);
  EXPECT_DOUBLE_EQ(schedule.rate_of(5), 2);
  EXPECT_NEAR(schedule.rate_of(10), 1, 1e-12);
  EXPECT_NEAR(schedule.rate_of(15), 0, 1e-12);
  EXPECT_NEAR(schedule.rate_of(99), 0, 1e-12);
}

TEST(Schedule, LinearEndsAtItsShareAndStepDropsByTens) {
  const Schedule linear{.kind = ScheduleKind::linear, .rate = 1, .steps = 11, .end = 0.2};
  EXPECT_DOUBLE_EQ(linear.rate_of(1), 1);
  EXPECT_NEAR(linear.rate_of(6), 0.6, 1e-12);
  EXPECT_NEAR(linear.rate_of(11), 0.2, 1e-12);
  const Schedule step{.kind = ScheduleKind::step, .rate = 1, .warmup = 2, .every = 3};
  EXPECT_DOUBLE_EQ(step.rate_of(5), 1);
  EXPECT_NEAR(step.rate_of(6), 0.1, 1e-12);
  EXPECT_NEAR(step.rate_of(9), 0.01, 1e-12);
  EXPECT_DOUBLE_EQ(Schedule{.rate = 3}.rate_of(1000), 3);
}

TEST(Schedule, NamesThatThereAreNotAreRefused) {
  EXPECT_EQ(parse_schedule("linear"), ScheduleKind::linear);
  EXPECT_THROW(parse_schedule("sine"), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::train

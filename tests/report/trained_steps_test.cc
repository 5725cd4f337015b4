#include "plimsoll/report/trained_steps.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::report {
namespace {

TEST(TrainedSteps, TheMedianIsNotMovedByASlowStep) {
  EXPECT_EQ(median_seconds({}), 0);
  const std::vector<TrainedStep> steps = {{.seconds = 9}, {.seconds = 1}, {.seconds = 2}};
  EXPECT_EQ(median_seconds(steps), 2);
}

TEST(TrainedSteps, TheTimeLeftIsThatOfTheLastSteps) {
  EXPECT_EQ(time_left({}, 10), "");
  std::vector<TrainedStep> steps(300, {.seconds = 60});
  EXPECT_EQ(time_left(steps, 10), ", about 1 min 00 s a step, 10 min 00 s left");
  steps.insert(steps.end(), 101, {.seconds = 2});
  EXPECT_EQ(time_left(steps, 10), ", about 2.000 s a step, 20.000 s left");
}

}  // namespace
}  // namespace plimsoll::report

#include "plimsoll/models/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plimsoll::models {
namespace {

double mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double deviation(const std::vector<double>& numbers) {
  double squares = 0;
  for (const double x : numbers) squares += x * x;
  return std::sqrt(squares / static_cast<double>(numbers.size()));
}

TEST(Init, FanInIsTheBoundOfPyTorch) {
  EXPECT_EQ(fan_in(64), uniform(0.125));
  EXPECT_EQ(fan_in(9 * 64).text(), "uniform(0.0416667)");
}

TEST(Init, DrawsUniformNumbersWithinTheBound) {
  const std::vector<double> numbers = draw(uniform(0.5), 20000, 7, 3);
  EXPECT_TRUE(std::all_of(numbers.begin(), numbers.end(), [](double x) { return x > -0.5 && x < 0.5; }));
  EXPECT_NEAR(mean(numbers), 0, 0.01);
  EXPECT_NEAR(deviation(numbers), 0.5 / std::sqrt(3), 0.01);
}

TEST(Init, DrawsNormalNumbersOfTheDeviation) {
  const std::vector<double> numbers = draw(normal(0.02), 20000, 7, 3);
  EXPECT_NEAR(mean(numbers), 0, 0.001);
  EXPECT_NEAR(deviation(numbers), 0.02, 0.0005);
}

TEST(Init, RepeatsUnderOneSeedAndDiffersBetweenStreams) {
  EXPECT_EQ(draw(normal(1), 10, 7, 3), draw(normal(1), 10, 7, 3));
  EXPECT_NE(draw(normal(1), 10, 7, 3), draw(normal(1), 10, 7, 4));
  EXPECT_NE(draw(normal(1), 10, 7, 3), draw(normal(1), 10, 8, 3));
}

TEST(Init, ConstantsAreConstant) { EXPECT_EQ(draw(constant(1), 3, 7, 0), (std::vector<double>{1, 1, 1})); }

}  // namespace
}  // namespace plimsoll::models

#include "plimsoll/kernels/cpu/support/pair_pool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "plimsoll/kernels/cpu/support/row_pool.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

// Few values, so that many are equal, and some no numbers.
std::vector<float> drawn(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const auto luck = random() % 32;
    value = luck == 0 ? std::nanf("") : static_cast<float>(static_cast<int>(random() % 7) - 3);
  }
  return values;
}

// The tap of a window that is the largest, by the rule in words: the last that is no number, else the first of the
// largest.
int expected_tap(const float (&taps)[4]) {
  int best = 0;
  for (int tap = 0; tap < 4; ++tap) {
    if (std::isnan(taps[tap]) || taps[tap] > taps[best]) best = tap;
  }
  return best;
}

TEST(PairPool, TakesTheLargestAndSendsItsGradientBack) {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{2, 2}, {3, 5}, {8, 34}, {4, 601}, {7, 1030}}) {
    const kernels::PairPlane plane{height, width};
    const std::vector<float> x = drawn(height * width, 1);
    const std::vector<float> dy = drawn(plane.rows() * plane.columns(), 2);
    std::vector<float> y(dy.size());
    std::vector<float> dx(x.size(), 77);
    std::vector<uint8_t> indices(dy.size());
    kernels::maximum_of_pairs(plane, x.data(), y.data(), indices.data());
    kernels::maximum_of_pairs_backward(plane, dy.data(), indices.data(), dx.data());
    std::vector<float> slopes(x.size(), 0);
    for (int64_t i = 0; i < plane.rows() * plane.columns(); ++i) {
      const int64_t corner = i / plane.columns() * 2 * width + i % plane.columns() * 2;
      const int64_t places[4] = {corner, corner + 1, corner + width, corner + width + 1};
      float taps[4];
      for (int tap = 0; tap < 4; ++tap) taps[tap] = x[static_cast<size_t>(places[tap])];
      const int tap = expected_tap(taps);
      ASSERT_EQ(indices[static_cast<size_t>(i)], tap) << i << " of " << height << "x" << width;
      ASSERT_TRUE(y[static_cast<size_t>(i)] == taps[tap] || std::isnan(taps[tap]));
      slopes[static_cast<size_t>(places[tap])] = dy[static_cast<size_t>(i)];
    }
    for (size_t i = 0; i < dx.size(); ++i) {
      ASSERT_TRUE(dx[i] == slopes[i] || (std::isnan(dx[i]) && std::isnan(slopes[i]))) << i;
    }
  }
}

TEST(PairPool, IsWhatPlainPlanesArePooledBy) {
  for (const char* shape : {"2,3,9,531", "1,5,6,8", "3,1,2,2"}) {
    expect_agreement(with_gradients(
        fmt::format("input %x: f32[{}]\n%y = max_pool(%x) {{kernel=[2], stride=[2]}}\noutput %y\n", shape)));
  }
}

// Windows that overlap, reach beyond the plane, or are more than go together.
TEST(RowPool, IsWhatOtherPlanesArePooledBy) {
  for (const auto& [shape, window] : {
           std::pair("2,3,9,531", "kernel=[3], stride=[2], padding=[1]"),
           std::pair("1,2,7,700", "kernel=[3], padding=[1]"),
           std::pair("2,1,11,40", "kernel=[2,5], stride=[3], dilation=[2]"),
       }) {
    expect_agreement(
        with_gradients(fmt::format("input %x: f32[{}]\n%y = max_pool(%x) {{{}}}\noutput %y\n", shape, window)));
  }
}

TEST(RowPool, TakesTheFirstOfEqualOnesAndNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {1, 1, 0, nan, 2, 3, 3, -1};
  const std::vector<kernels::simd::Reach> reaches = {
      {-1, 1, 3, 0}, {1, 0, 3, 0}, {3, 0, 3, 0}, {5, 0, 3, 0}, {7, 0, 1, 0}};
  const kernels::WindowRow row(reaches, 3, 1);
  kernels::WindowChunk chunk(row, 0);
  chunk.take_row(x.data(), 0);
  std::vector<float> y(reaches.size());
  std::vector<uint8_t> indices(reaches.size());
  chunk.write(y.data(), indices.data());
  EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2]));
  EXPECT_EQ((std::vector<float>{y[0], y[3], y[4]}), (std::vector<float>{1, 3, -1}));
  EXPECT_EQ(indices, (std::vector<uint8_t>{1, 2, 0, 0, 0}));
}

TEST(Averages, OfWholePlanesAreTheReferences) {
  for (const char* shape : {"3,11,9,10", "1,3,5,5", "2,8,1,1"}) {
    expect_agreement(with_gradients(
        fmt::format("input %x: f32[{}]\n%y = adaptive_avg_pool(%x) {{size=[1,1]}}\noutput %y\n", shape)));
  }
}

}  // namespace
}  // namespace plimsoll

#include "plimsoll/run/eager/leak_watch.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/run/eager/host.h"

namespace plimsoll::eager {
namespace {

const TensorSpec kSpec{DType::f32, {64, 64}};  // 16 KiB

TEST(LeakWatch, WhatIsAppendedInEveryStepIsNamedWithItsSlope) {
  Host host({8 * kMiB, "a test"});
  LeakWatch watch(host.pool());
  const Tensor weights = host.context().parameter("fc.weight", kSpec);
  std::vector<Tensor> list;
  for (int i = 0; i < 10; ++i) {
    const Tensor passing = host.context().empty(kSpec, "batch");
    list.push_back(host.context().empty(kSpec, "loader.append"));
    watch.step();
  }
  const std::vector<Leak> leaks = watch.leaks();
  ASSERT_EQ(leaks.size(), 1U);
  EXPECT_EQ(leaks[0].place, "loader.append");
  EXPECT_DOUBLE_EQ(leaks[0].bytes_per_step, 16 * kKiB);
  EXPECT_EQ(leaks[0].live_bytes, 160 * kKiB);
  EXPECT_EQ(leaks[0].live_blocks, 10);
  EXPECT_EQ(*leaks[0].steps_left, (8 * kMiB - host.pool().stats().live_bytes) / (16 * kKiB));
  EXPECT_NE(leaks[0].text().find("loader.append grows by 16.00 KiB a step: 160.00 KiB in 10 blocks"),
            std::string::npos);
}

TEST(LeakWatch, MemoryThatComesAndGoesIsNoLeak) {
  Host host({8 * kMiB, "a test"});
  LeakWatch watch(host.pool());
  std::vector<Tensor> list;
  for (int i = 0; i < 30; ++i) {
    if (i % 7 == 0) list.clear();
    list.push_back(host.context().empty(kSpec, "window"));
    watch.step();
  }
  EXPECT_TRUE(watch.leaks().empty());
}

TEST(LeakWatch, WhatTheFirstStepsSetUpStaysAndIsNoLeak) {
  Host host({8 * kMiB, "a test"});
  LeakWatch watch(host.pool());
  std::vector<Tensor> list;
  for (int i = 0; i < 20; ++i) {
    if (i < 3) list.push_back(host.context().empty(kSpec, "cache"));
    watch.step();
  }
  EXPECT_TRUE(watch.leaks().empty());
}

TEST(LeakWatch, ALeakThatEndsIsForgottenAfterTheWindow) {
  Host host({8 * kMiB, "a test"});
  LeakWatch watch(host.pool(), 6);
  std::vector<Tensor> list;
  for (int i = 0; i < 6; ++i) {
    list.push_back(host.context().empty(kSpec, "list"));
    watch.step();
  }
  EXPECT_EQ(watch.leaks().size(), 1U);
  for (int i = 0; i < 6; ++i) watch.step();
  EXPECT_TRUE(watch.leaks().empty());
}

TEST(LeakWatch, LossesThatAreKeptHoldTheirTapes) {
  Host host({8 * kMiB, "a test"});
  LeakWatch watch(host.pool());
  Context& context = host.context();
  const Tensor w = context.parameter("w", kSpec);
  const Tensor x = context.full(kSpec, 1);
  std::vector<Tensor> losses;
  for (int i = 0; i < 8; ++i) {
    losses.push_back((w * x).square().sum());
    watch.step();
  }
  const std::vector<Leak> leaks = watch.leaks();
  ASSERT_FALSE(leaks.empty());
  EXPECT_GE(leaks[0].bytes_per_step, 16 * kKiB) << "the product that the gradient of the square reads";
}

}  // namespace
}  // namespace plimsoll::eager

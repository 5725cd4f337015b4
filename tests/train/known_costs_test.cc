#include "plimsoll/train/known_costs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "plimsoll/models/step.h"

namespace plimsoll::train {
namespace {

TEST(KnownCosts, SayTheSameAfterARest) {
  const std::string folder = testing::TempDir() + "plimsoll_known_costs";
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  const kernels::Lowered step = kernels::prepare(models::build_step(models::find_model("lenet"), {}), {.threads = 1});
  KnownCosts costs;
  const auto guessed = costs.of(step).seconds;
  costs.calibrate("cpu", 1);
  const auto calibrated = costs.of(step).seconds;
  costs.rest();
  EXPECT_EQ(costs.of(step).seconds, calibrated);
  EXPECT_NE(calibrated, guessed);
  unsetenv("XDG_CACHE_HOME");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plimsoll::train

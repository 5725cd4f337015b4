#include "plimsoll/kernels/cpu/support/denormals.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "plimsoll/kernels/cpu/support/updates.h"

namespace plimsoll::kernels {
namespace {

// Where gradients have died away the state would linger below the smallest normal number for hundreds of steps.
TEST(Denormals, AreNotKeptInTheStateOfOptimizers) {
  const float tiny = std::numeric_limits<float>::min() / 8;
  const std::vector<float> gradient(100, 0);
  std::vector<float> w(100, 0.5F);
  std::vector<float> mean(100, tiny);
  std::vector<float> square(100, tiny);
  const Adam adam{.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F, .decay = 0, .decoupled = false, .rate = 0.1F};
  apply(adam, w.data(), mean.data(), square.data(), gradient.data(), 100);
  EXPECT_EQ(mean, std::vector<float>(100, 0));
  EXPECT_EQ(square, std::vector<float>(100, 0));
  EXPECT_EQ(w, std::vector<float>(100, 0.5F));
  volatile float half = tiny;
  half = half / 2;
  EXPECT_GT(half, 0.0F);  // elsewhere they are numbers as before
}

}  // namespace
}  // namespace plimsoll::kernels

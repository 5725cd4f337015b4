// Eager tensors when the pool is short: what tapes keep goes and is computed again, to the same bits.
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/dropout.h"
#include "plimsoll/run/eager/optimizer.h"
#include "tests/run/eager_fixture.h"

namespace plimsoll::eager {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kSize = 64;
constexpr int64_t kLayer = kSize * kSize * 4;

struct Outcome {
  int64_t peak_bytes;
  int64_t evictions;
  Floats values;
};

// Ten layers with one weight: cheap ones whose backward pass reads the output, dropout among them.
Tensor deep(const Tensor& x, const Tensor& w, const Tensor& seed) {
  Tensor y = x;
  for (int64_t layer = 0; layer < 10; ++layer) {
    y = (y * w).tanh();
    y = call(program::dropout, y, seed, program::DropoutOptions{.rate = 0.25, .stream = layer});
    y = y.sigmoid();
  }
  return y;
}

Outcome train_deep(int64_t budget_bytes, const std::string& spill_folder = "") {
  Workshop shop(budget_bytes);
  if (!spill_folder.empty()) shop.context.spill_to(spill_folder);
  const Tensor x = ramp(shop.context, {kSize, kSize}, 0.02F);
  const Tensor seed = shop.context.from<int64_t>({}, std::vector<int64_t>{7});
  Tensor w = ramp(shop.context, {kSize, kSize}, 0.01F).require_grad();
  Sgd sgd(shop.context, {w}, 0.5);
  for (int step = 0; step < 2; ++step) {
    sgd.clear_grads();
    deep(x, w, seed).sum().backward();
    sgd.step();
  }
  return {shop.pool.stats().live_peak_bytes, shop.context.evictions(), w.values<float>()};
}

TEST(EagerEviction, GivesTheSameBitsInLessMemory) {
  const Outcome free = train_deep(64 << 20);
  EXPECT_EQ(free.evictions, 0);
  EXPECT_GT(free.peak_bytes, 25 * kLayer);
  for (const int64_t layers : {20, 14, 11}) {
    const Outcome tight = train_deep(layers * kLayer);
    EXPECT_EQ(tight.values, free.values) << layers;
    EXPECT_GT(tight.evictions, 0) << layers;
    EXPECT_LE(tight.peak_bytes, layers * kLayer);
  }
}

TEST(EagerEviction, FailsWhenNothingIsLeft) {
  EXPECT_THROW(train_deep(5 * kLayer), ResourceExhausted);
  Workshop shop(4 * kLayer);
  std::vector<Tensor> held;
  try {
    for (;;) held.push_back(shop.context.full({DType::f32, {kSize, kSize}}, 1));
  } catch (const ResourceExhausted& error) {
    EXPECT_EQ(error.report().tried.size(), 2U);
  }
  EXPECT_EQ(held.size(), 4U);
  EXPECT_EQ(held[3].values<float>().back(), 1);
}

// y is computed from w, then goes, then w changes: it must be as it was.
TEST(EagerEviction, ComputesAgainBeforeWhatItNeedsIsOverwritten) {
  const auto gradient = [](bool evicts) {
    Workshop shop(12 * kLayer);
    Tensor w = ramp(shop.context, {kSize, kSize}, 0.01F).require_grad();
    Tensor scale = shop.context.full({DType::f32, {}}, 1).require_grad();
    const Tensor loss = ((w * 1.5).tanh() * scale).sum();  // its gradient reads tanh(1.5 w), not w
    std::vector<Tensor> others;
    while (evicts && shop.context.evictions() == 0) {
      others.push_back(shop.context.full({DType::f32, {kSize, kSize}}, 0));
    }
    others.clear();
    {
      const NoGrad no_grad(shop.context);
      apply("sgd", {w, ramp(shop.context, {kSize, kSize}), shop.context.full({DType::f32, {}}, 1)});
    }
    loss.backward();
    return scale.grad().item();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// The gradient of w reads x, which nothing can compute again and only the tape holds.
TEST(EagerEviction, SpillsWhatCannotBeComputedAgain) {
  const auto gradient = [](bool spills) {
    Workshop shop(12 * kLayer);
    if (spills) shop.context.spill_to(PLIMSOLL_SOURCE_DIR);
    Tensor w = ramp(shop.context, {kSize, kSize}, 0.01F).require_grad();
    const Tensor loss = (ramp(shop.context, {kSize, kSize}, 0.02F) * w).sum();
    std::vector<Tensor> others;
    while (spills && shop.context.spills() == 0) others.push_back(shop.context.full({DType::f32, {kSize, kSize}}, 0));
    others.clear();
    loss.backward();
    return w.grad().values<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(EagerEviction, TrainsToTheSameBitsWithAFolderToSpillTo) {
  const Outcome free = train_deep(64 << 20);
  const Outcome tight = train_deep(11 * kLayer, PLIMSOLL_SOURCE_DIR);
  EXPECT_EQ(tight.values, free.values);
  EXPECT_LE(tight.peak_bytes, 11 * kLayer);
  EXPECT_THROW(train_deep(11 * kLayer, "/no/such/folder"), SystemError);
}

TEST(EagerEviction, KeepsWhatHasAHandle) {
  Workshop shop(12 * kLayer);
  Tensor w = ramp(shop.context, {kSize, kSize}, 0.01F).require_grad();
  const Tensor y = w.tanh();
  const Floats before = y.values<float>();
  std::vector<Tensor> others;
  EXPECT_THROW(for (;;) others.push_back(shop.context.full({DType::f32, {kSize, kSize}}, 0)), ResourceExhausted);
  EXPECT_EQ(y.values<float>(), before);
  EXPECT_EQ(shop.context.evictions(), 0);
}

}  // namespace
}  // namespace plimsoll::eager

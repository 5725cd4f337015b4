#include "plimsoll/train/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plimsoll.h"
#include "tests/memory/sanitized.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

constexpr int64_t kBatch = 2048;
constexpr int64_t kFeatures = 4096;

// Large inputs (32 MiB) and small layers, so that micro-batches save most of it.
Model wide_model() {
  Net net;
  Value x = net.input("x", {batch, kFeatures});
  x = relu(net, linear(net, "fc1", x, 16));
  return classify(std::move(net), linear(net, "fc2", x, 4));
}

TrainingOptions options_within(std::string budget) {
  return {.batch = kBatch,
          .budget = std::move(budget),
          .optimizer = sgd(1e-2),
          .device = test_device(),
          .threads = 1,
          .measure = false};
}

// Counts how often each sample is read, and makes each batch different.
class CountingBatch : public Batch {
 public:
  explicit CountingBatch(int number) : number_(number), reads_(static_cast<size_t>(kBatch)) {}

  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override {
    const program::ValueInfo& info = program[input];
    const int64_t samples = info.type.shape[0].constant();
    if (info.name == "target") {
      auto* targets = reinterpret_cast<int64_t*>(into.data());
      for (int64_t i = 0; i < samples; ++i) targets[i] = (first + i + number_) % 4;
      return;
    }
    auto* values = reinterpret_cast<float*>(into.data());
    for (int64_t i = 0; i < samples * kFeatures; ++i) {
      values[i] = static_cast<float>((first * kFeatures + i + number_) % 17 - 8) / 8;
    }
    for (int64_t i = 0; i < samples; ++i) ++reads_[static_cast<size_t>(first + i)];
  }

  const std::vector<int>& reads() const { return reads_; }

 private:
  int number_;
  mutable std::vector<int> reads_;
};

std::vector<float> train_on(std::vector<CountingBatch>& batches, Training& training, int steps) {
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(training.step(batches[static_cast<size_t>(i) % batches.size()]));
  return losses;
}

std::vector<CountingBatch> eight_batches() {
  std::vector<CountingBatch> batches;
  for (int i = 0; i < 8; ++i) batches.emplace_back(i);
  return batches;
}

// Enough for the batch in micro-batches, and too little for it as a whole. What a process takes beside the arena grows
// with the kernels that it has bound.
std::string small_budget() {
  constexpr int64_t kMore = 12 * kMiB;
  try {
    const Training training(wide_model(), options_within("16MiB"));
    ADD_FAILURE() << "16 MiB should not do";
  } catch (const DoesNotFit& error) {
    return std::to_string(error.smallest_budget_bytes() + kMore);
  }
  return "";
}

void expect_every_batch_read(const std::vector<CountingBatch>& batches, int times) {
  for (const CountingBatch& each : batches) {
    EXPECT_EQ(each.reads(), std::vector<int>(static_cast<size_t>(kBatch), times));
  }
}

std::vector<float> losses_within(const std::string& budget, int steps) {
  auto batches = eight_batches();
  Training training(wide_model(), options_within(budget));
  std::vector<float> losses = train_on(batches, training, steps);
  expect_every_batch_read(batches, steps / 8);
  EXPECT_EQ(training.plan().micro_batches.size() > 1, budget != "1GiB");
  return losses;
}

TEST(Training, ReadsEveryBatchWhateverThePlan) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  constexpr int kSteps = 40;
  const std::vector<float> whole = losses_within("1GiB", kSteps);
  const std::vector<float> divided = losses_within(small_budget(), kSteps);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(divided[i], whole[i], 1e-5) << i;
}

TEST(Training, TakesANewLearningRate) {
  auto batches = eight_batches();
  Training training(wide_model(), options_within("1GiB"));
  const std::vector<float> before = training.read("fc2.weight");
  training.set_learning_rate(0);
  training.step(batches[0]);
  EXPECT_EQ(training.read("fc2.weight"), before);
  training.set_learning_rate(1e-2);
  training.step(batches[0]);
  EXPECT_NE(training.read("fc2.weight"), before);
}

TEST(Training, GoesOnWithinAnotherBudget) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  const std::vector<float> steady = losses_within("1GiB", 8);
  const std::string small = small_budget();
  auto batches = eight_batches();
  Training training(wide_model(), options_within("1GiB"));
  std::vector<float> losses = train_on(batches, training, 5);
  training.set_budget(small);
  EXPECT_GT(training.plan().micro_batches.size(), 1U);
  for (size_t i = 5; i < 8; ++i) losses.push_back(training.step(batches[i]));
  EXPECT_EQ(training.steps(), 8);
  for (size_t i = 0; i < steady.size(); ++i) EXPECT_NEAR(losses[i], steady[i], 1e-5) << i;
}

TEST(Training, RefusesWithTheSmallestBudgetAndWhatWouldFit) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  try {
    Training training(zoo("lenet"),
                      {.batch = 512, .budget = "12MiB", .device = test_device(), .threads = 1, .measure = false});
    FAIL() << "12 MiB should not do";
  } catch (const DoesNotFit& error) {
    EXPECT_GT(error.smallest_budget_bytes(), 12 * kMiB);
    EXPECT_NE(std::string(error.what()).find("smallest budget"), std::string::npos);
    // The process has grown by the kernels of the first try.
    const std::string more = std::to_string(error.smallest_budget_bytes() + 32 * kMiB);
    const Training fits(zoo("lenet"),
                        {.batch = 512, .budget = more, .device = test_device(), .threads = 1, .measure = false});
    EXPECT_LE(fits.plan().predicted_peak_bytes, error.smallest_budget_bytes() + 32 * kMiB);
  }
}

// Results of 32 MiB in a row, each needed in the backward pass.
Model deep_model() {
  Net net;
  Value x = net.input("x", {batch, kFeatures});
  for (int i = 0; i < 6; ++i) x = layer_norm(net, "norm" + std::to_string(i), x);
  return classify(std::move(net), linear(net, "fc", x, 4));
}

TEST(Training, ComputesNothingAgainWhereThatIsRuledOut) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  const auto options = [](const std::string& budget, bool recompute) {
    TrainingOptions whole = options_within(budget);
    whole.micro_batches = false;
    whole.recompute = recompute;
    return whole;
  };
  const auto smallest = [&](bool recompute) {
    try {
      const Training training(deep_model(), options("16MiB", recompute));
    } catch (const DoesNotFit& error) {
      return error.smallest_budget_bytes();
    }
    return int64_t{0};
  };
  const int64_t with = smallest(true);
  const int64_t without = smallest(false);
  ASSERT_GT(without, with + 24 * kMiB);
  const auto recomputes = [](const Training& training) {
    return std::ranges::any_of(training.plan().measures,
                               [](const auto& measure) { return measure.kind == "recompute"; });
  };
  EXPECT_TRUE(recomputes(Training(deep_model(), options(std::to_string(with + 8 * kMiB), true))));
  EXPECT_FALSE(recomputes(Training(deep_model(), options(std::to_string(without + 32 * kMiB), false))));
  try {
    const Training none(deep_model(), options(std::to_string(with + 8 * kMiB), false));
    ADD_FAILURE() << "nothing may be computed again";
  } catch (const DoesNotFit& error) {
    EXPECT_NE(std::string(error.what()).find("without --no-recompute"), std::string::npos) << error.what();
    EXPECT_TRUE(std::ranges::any_of(error.alternatives(), [](const auto& way) {
      return way.settings.size() == 1 && way.settings[0].option == "recompute";
    }));
  }
}

TEST(Training, SaysWhatABatchLacks) {
  Training training(wide_model(), options_within("1GiB"));
  const std::vector<float> images(kBatch * kFeatures);
  const std::vector<int64_t> few(3);
  try {
    training.step(ArrayBatch({{"x", images}}));
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "the batch has no array for the input target (i64[2048]); it has x");
  }
  EXPECT_THROW(training.step(ArrayBatch({{"x", images}, {"target", few}})), ArgumentError);
  EXPECT_THROW(training.step(ArrayBatch({{"x", few}, {"target", few}})), ArgumentError);
}

TEST(Training, PrintsItsPlan) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  std::ostringstream text;
  text << Training(wide_model(), options_within(small_budget())).plan();
  EXPECT_NE(text.str().find("micro-batches of"), std::string::npos) << text.str();
}

TEST(Training, RefusesADeviceThatIsNotThere) {
  TrainingOptions options = options_within("1GiB");
  options.device = "abacus";
  EXPECT_THROW(Training(wide_model(), options), ArgumentError);
}

TEST(Inference, GivesWhatTheWeightsSay) {
  Net net({.training = false});
  const Value x = net.input("x", {batch, 3});
  Model model = std::move(net).finish(linear(net, "fc", x, 2));
  Inference inference(std::move(model), {.batch = 2, .budget = "2GiB", .device = test_device(), .threads = 1});
  const std::vector<float> weight = {1, 0, 0, 0, 2, 0};
  const std::vector<float> bias = {10, 20};
  inference.write("fc.weight", weight);
  inference.write("fc.bias", bias);
  const std::vector<float> samples = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(inference.run(ArrayBatch({{"x", samples}})), (std::vector<float>{11, 24, 14, 30}));
  EXPECT_GT(inference.predicted_peak_bytes(), inference.arena_bytes());
}

TEST(Inference, RefusesAModelThatWasBuiltForTraining) {
  EXPECT_THROW(Inference(wide_model(), {.batch = 2}), UnsupportedError);
}

}  // namespace
}  // namespace plimsoll

#include "plimsoll/train/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plimsoll.h"

namespace plimsoll {
namespace {

constexpr int64_t kBatch = 24;
constexpr int64_t kFeatures = 2048;

// Large inputs and small layers, so that micro-batches save most of it.
Model wide_model() {
  Net net;
  Value x = net.input("x", {batch, kFeatures});
  x = relu(net, linear(net, "fc1", x, 2048));
  return classify(std::move(net), linear(net, "fc2", x, 4));
}

TrainingOptions options_within(std::string budget) {
  return {.batch = kBatch, .budget = std::move(budget), .optimizer = sgd(1e-2), .threads = 1, .measure = false};
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
      values[i] = std::sin(static_cast<float>(first * kFeatures + i + 1000 * number_));
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

// The smallest budget with the batch in micro-batches.
std::string smallest_budget() {
  try {
    const Training training(wide_model(), options_within("20MiB"));
    ADD_FAILURE() << "20 MiB should not do";
  } catch (const DoesNotFit& error) {
    return std::to_string(error.smallest_budget_bytes());
  }
  return "";
}

void expect_every_batch_read(const std::vector<CountingBatch>& batches, int times) {
  for (const CountingBatch& each : batches) {
    EXPECT_EQ(each.reads(), std::vector<int>(static_cast<size_t>(kBatch), times));
  }
}

TEST(Training, ReadsEveryBatchWhateverThePlan) {
  constexpr int kSteps = 40;
  auto batches = eight_batches();
  Training whole(wide_model(), options_within("1GiB"));
  ASSERT_EQ(whole.plan().micro_batches.size(), 1U);
  const std::vector<float> losses = train_on(batches, whole, kSteps);
  expect_every_batch_read(batches, kSteps / 8);

  auto again = eight_batches();
  TrainingOptions small = options_within(smallest_budget());
  Training divided(wide_model(), small);
  ASSERT_GT(divided.plan().micro_batches.size(), 1U);
  const std::vector<float> same = train_on(again, divided, kSteps);
  expect_every_batch_read(again, kSteps / 8);
  for (int i = 0; i < kSteps; ++i) EXPECT_NEAR(losses[static_cast<size_t>(i)], same[static_cast<size_t>(i)], 1e-5) << i;
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
  auto batches = eight_batches();
  Training steady(wide_model(), options_within("1GiB"));
  const std::vector<float> losses = train_on(batches, steady, 4);

  Training changed(wide_model(), options_within("1GiB"));
  std::vector<float> found = train_on(batches, changed, 2);
  changed.set_budget(smallest_budget());
  EXPECT_GT(changed.plan().micro_batches.size(), 1U);
  found.push_back(changed.step(batches[2]));
  found.push_back(changed.step(batches[3]));
  EXPECT_EQ(changed.steps(), 4);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(found[i], losses[i], 1e-5) << i;
}

TEST(Training, RefusesWithTheSmallestBudgetAndWhatWouldFit) {
  try {
    Training training(zoo("lenet"), {.batch = 512, .budget = "30MiB", .threads = 1, .measure = false});
    FAIL() << "30 MiB should not do";
  } catch (const DoesNotFit& error) {
    EXPECT_GT(error.smallest_budget_bytes(), 30 * kMiB);
    EXPECT_NE(std::string(error.what()).find("smallest budget"), std::string::npos);
    // The process has grown by the kernels of the first try.
    const std::string more = std::to_string(error.smallest_budget_bytes() + 32 * kMiB);
    const Training fits(zoo("lenet"), {.batch = 512, .budget = more, .threads = 1, .measure = false});
    EXPECT_LE(fits.plan().predicted_peak_bytes, error.smallest_budget_bytes() + 32 * kMiB);
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
    EXPECT_STREQ(error.what(), "the batch has no array for the input target (i64[24]); it has x");
  }
  EXPECT_THROW(training.step(ArrayBatch({{"x", images}, {"target", few}})), ArgumentError);
  EXPECT_THROW(training.step(ArrayBatch({{"x", few}, {"target", few}})), ArgumentError);
}

TEST(Training, PrintsItsPlan) {
  std::ostringstream text;
  text << Training(wide_model(), options_within(smallest_budget())).plan();
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
  Inference inference(std::move(model), {.batch = 2, .budget = "256MiB", .threads = 1});
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

// The loop on small arrays: its batches, evaluations, checkpoints and log.
#include "plimsoll/train/loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "plimsoll/plimsoll.h"
#include "plimsoll/train/inference.h"
#include "tests/in_folder.h"
#include "tests/test_device.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 28;
constexpr int64_t kBatch = 8;

// Images whose brightness says their class, in another order in every epoch.
struct Samples {
  explicit Samples(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      targets.push_back(i * 7 % 10);
      for (int64_t k = 0; k < kSide * kSide; ++k) {
        images.push_back(static_cast<float>(targets.back() * kSide * kSide > k * 10) -
                         0.1F * static_cast<float>((i + k) % 3));
      }
    }
  }
  std::vector<float> images;
  std::vector<int64_t> targets;
};

class Rounds : public Batches {
 public:
  Rounds(int64_t count, int64_t batch, bool keeps_rest = false)
      : samples_(std::make_shared<Samples>(count)), count_(count), batch_(batch), keeps_rest_(keeps_rest) {}

  Delivered next() override {
    const int64_t left = count_ - position_.sample;
    if (left < (keeps_rest_ ? 1 : batch_)) {
      position_ = {position_.epoch + 1, 0};
      return {};
    }
    const int64_t size = std::min(batch_, left);
    const int64_t first =
        keeps_rest_ ? position_.sample : (position_.sample + position_.epoch * batch_) % (count_ - batch_ + 1);
    position_.sample += size;
    const auto images = std::span<const float>(samples_->images).subspan(static_cast<size_t>(first * kSide * kSide));
    const auto targets = std::span<const int64_t>(samples_->targets).subspan(static_cast<size_t>(first));
    return {std::make_shared<ArrayBatch>(
                std::map<std::string, ArrayBatch::Array>{{"x", images.first(static_cast<size_t>(size * kSide * kSide))},
                                                         {"target", targets.first(static_cast<size_t>(size))}}),
            size};
  }
  int64_t batches_per_epoch() const override { return count_ / batch_; }
  DataPosition position() const override { return position_; }
  void seek(const DataPosition& position) override { position_ = position; }

 private:
  std::shared_ptr<Samples> samples_;
  int64_t count_;
  int64_t batch_;
  bool keeps_rest_;
  DataPosition position_;
};

TrainingOptions training_options() {
  return {.batch = kBatch, .optimizer = adam(2e-3), .device = test_device(), .threads = 1, .measure = false};
}

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(Loop, RunsEpochsAndLearnsWhatItEvaluates) {
  Training training(zoo("lenet"), training_options());
  LoopOptions options{.epochs = 6, .schedule = {.rate = 2e-3}};
  options.evaluation = std::make_shared<Rounds>(21, kBatch, true);  // 8, 8 and 5
  std::vector<Metrics> found;
  options.on_evaluation = [&](int64_t, const Metrics& metrics) { found.push_back(metrics); };
  Loop loop(training, std::make_shared<Rounds>(43, kBatch), options);
  const LoopResult result = loop.run();
  EXPECT_EQ(result.end, EndOfLoop::done);
  EXPECT_EQ(result.steps, 30);  // 5 whole batches an epoch
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found.back().samples, 21);
  EXPECT_LT(found.back().loss, found.front().loss);
  EXPECT_FALSE(found.back().perplexity);
  EXPECT_EQ(result.metrics->loss, found.back().loss);
}

TEST(Loop, EvaluatesAsInferenceDoes) {
  Training training(zoo("lenet"), training_options());
  LoopOptions options{.steps = 3, .schedule = {.rate = 1e-3}};
  options.evaluation = std::make_shared<Rounds>(11, kBatch, true);
  const LoopResult result = Loop(training, std::make_shared<Rounds>(40, kBatch), options).run();
  Inference inference(zoo("lenet"), {.batch = 1, .device = test_device(), .threads = 1});
  for (const std::string& name : inference.names()) inference.write(name, training.read(name));
  const Samples samples(11);
  double loss = 0;
  int right = 0;
  for (size_t i = 0; i < 11; ++i) {
    const auto image = std::span<const float>(samples.images).subspan(i * kSide * kSide, kSide * kSide);
    const std::vector<float> logits = inference.run(ArrayBatch({{"x", image}}));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const auto target = static_cast<size_t>(samples.targets[i]);
    loss += std::log(sum) - static_cast<double>(logits[target]);
    right += std::max_element(logits.begin(), logits.end()) - logits.begin() == samples.targets[i] ? 1 : 0;
  }
  ASSERT_TRUE(result.metrics);
  EXPECT_NEAR(result.metrics->loss, loss / 11, 1e-5);
  EXPECT_NEAR(*result.metrics->accuracy, right / 11.0, 1e-12);
}

// Weights after a loop of this many steps in all.
std::vector<float> weights_after(const std::string& folder, int64_t steps, bool resume, int64_t stop_after = 0) {
  Training training(zoo("lenet"), training_options());
  LoopOptions options{.steps = steps,
                      .schedule = {.kind = ScheduleKind::cosine, .rate = 2e-3, .steps = 14, .warmup = 3},
                      .checkpoint = {.folder = folder, .every = 4, .keep = 2, .resume = resume}};
  if (folder.empty()) options.checkpoint = {};
  options.evaluation = std::make_shared<Rounds>(16, kBatch, true);
  int64_t done = 0;
  options.on_step = [&](const LoopOptions::Step&) { ++done; };
  if (stop_after > 0) options.stops = [&] { return done == stop_after; };
  Loop(training, std::make_shared<Rounds>(43, kBatch), options).run();
  return training.read("conv1.weight");
}

TEST(Loop, ResumedGivesTheBitsOfARunThatNeverStopped) {
  const std::vector<float> expected = weights_after("", 14, false);
  const TemporaryFolder folder("plimsoll-loop-");
  EXPECT_NE(weights_after(folder.path(), 14, true, 5), expected);  // stopped amid an epoch: a checkpoint of step 5
  EXPECT_EQ(Checkpoint(folder.path()).state().step, 5);
  EXPECT_EQ(Checkpoint(folder.path()).state().data, (DataPosition{0, 40}));
  EXPECT_NE(weights_after(folder.path(), 14, true, 2), expected);
  EXPECT_EQ(weights_after(folder.path(), 14, true), expected);
  EXPECT_EQ(weights_after(folder.path(), 14, true), expected);  // there is nothing left to do
}

TEST(Loop, AFolderWithCheckpointsIsNotWrittenOverByAccident) {
  const TemporaryFolder folder("plimsoll-loop-");
  weights_after(folder.path(), 2, false);
  EXPECT_THROW(weights_after(folder.path(), 2, false), ArgumentError);
}

// A plan that does not fit ends the run, and what it has learnt stays.
TEST(Loop, SavesBeforeItIsPlannedAgain) {
  const TemporaryFolder folder("plimsoll-loop-");
  Training training(zoo("lenet"), training_options());
  LoopOptions options{.steps = 9, .schedule = {.rate = 1e-3}, .checkpoint = {.folder = folder / "run"}};
  options.between_steps = [&](const std::function<void()>& save) {
    if (training.steps() != 3) return;
    save();
    throw ArgumentError("does not fit");
  };
  Loop loop(training, std::make_shared<Rounds>(43, kBatch), options);
  EXPECT_THROW(loop.run(), ArgumentError);
  ASSERT_TRUE(newest_checkpoint(folder / "run"));
  EXPECT_EQ(Checkpoint(folder / "run").state().step, 3);
}

TEST(Loop, EndsWhenEvaluationsGetNoBetter) {
  Training training(zoo("lenet"), training_options());
  LoopOptions options{.epochs = 50, .schedule = {.rate = 0}, .patience = 2};
  options.evaluation = std::make_shared<Rounds>(8, kBatch, true);
  const LoopResult result = Loop(training, std::make_shared<Rounds>(16, kBatch), options).run();
  EXPECT_EQ(result.end, EndOfLoop::no_better);
  EXPECT_EQ(result.steps, 6);  // the first is the best; two more
}

// Evaluated at its end, and again where it goes on: that counts once.
TEST(Loop, ResumedIsAsPatientAsARunThatNeverStopped) {
  const TemporaryFolder folder("plimsoll-loop-");
  const auto run = [&](int64_t steps) {
    Training training(zoo("lenet"), training_options());
    LoopOptions options{.steps = steps,
                        .schedule = {.rate = 0},
                        .patience = 2,
                        .checkpoint = {.folder = folder / "run", .resume = true}};
    options.evaluation = std::make_shared<Rounds>(8, kBatch, true);
    return Loop(training, std::make_shared<Rounds>(16, kBatch), options).run();
  };
  EXPECT_EQ(run(4).end, EndOfLoop::done);  // the second evaluation is no better
  const LoopResult result = run(50);
  EXPECT_EQ(result.end, EndOfLoop::no_better);
  EXPECT_EQ(result.steps, 6);
}

// Where the loss is not a number from the start, nothing is ever better.
TEST(Loop, EvaluationsThatAreNotFiniteAreNoBetter) {
  const TemporaryFolder folder("plimsoll-loop-");
  Training training(zoo("lenet"), training_options());
  std::vector<float> weights = training.read("conv1.weight");
  weights[0] = std::numeric_limits<float>::quiet_NaN();
  training.write("conv1.weight", weights);
  LoopOptions options{.epochs = 50,
                      .schedule = {.rate = 0},
                      .patience = 2,
                      .checkpoint = {.folder = folder / "run", .every = 1},
                      .log = folder / "log.jsonl"};
  options.evaluation = std::make_shared<Rounds>(8, kBatch, true);
  std::vector<std::string> errors;
  options.on_checkpoint = [&](const CheckpointFolder::Outcome& outcome) { errors.push_back(outcome.error); };
  const LoopResult result = Loop(training, std::make_shared<Rounds>(16, kBatch), options).run();
  EXPECT_EQ(result.end, EndOfLoop::no_better);
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(errors, (std::vector<std::string>(4, "its loss is nan"))) << "good checkpoints are not replaced";
  EXPECT_EQ(result.checkpoint, "");
  EXPECT_FALSE(newest_checkpoint(folder / "run"));
}

TEST(Loop, LogsStepsAndCutsOffWhatIsDoneAgain) {
  const TemporaryFolder folder("plimsoll-loop-");
  const auto run = [&](int64_t steps, bool forget) {
    Training training(zoo("lenet"), training_options());
    const LoopOptions options{.steps = steps,
                              .schedule = {.rate = 1e-3},
                              .checkpoint = {.folder = folder / "run", .every = 2, .resume = true},
                              .log = folder / "log.jsonl"};
    Loop(training, std::make_shared<Rounds>(43, kBatch), options).run();
    if (forget) fs::remove(folder / "run" + "/step-00000003.safetensors");
  };
  run(3, true);
  const auto before = lines_of(folder / "log.jsonl");
  run(5, false);
  const auto after = lines_of(folder / "log.jsonl");
  std::vector<int64_t> steps;
  for (const auto& line : after) {
    if (line.contains("loss")) steps.push_back(line["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(before[0], after[0]);
  EXPECT_GT(after[0]["process_peak_bytes"], 0);
}

TEST(Loop, TellsThatItsLogLacksLines) {
  Training training(zoo("lenet"), training_options());
  const auto run = [&](const std::string& log) {
    const LoopOptions options{.steps = 2, .schedule = {.rate = 1e-3}, .log = log};
    return Loop(training, std::make_shared<Rounds>(16, kBatch), options).run().log_error;
  };
  EXPECT_NE(run("/dev/full").find("No space left on device"), std::string::npos);
  const TemporaryFolder folder("plimsoll-loop-");
  EXPECT_EQ(run(folder / "log.jsonl"), "");
}

TEST(Loop, OptionsThatMakeNoSenseAreRefused) {
  Training training(zoo("lenet"), training_options());
  const auto refuses = [&](const LoopOptions& options, bool data) {
    EXPECT_THROW(Loop(training, data ? std::make_shared<Rounds>(16, kBatch) : nullptr, options), ArgumentError);
  };
  refuses({}, true);
  refuses({.epochs = 1}, false);
  refuses({.steps = 1, .patience = 2}, true);
  refuses({.steps = 1, .checkpoint = {.every = 2}}, true);
  refuses({.steps = 1, .checkpoint = {.resume = true}}, true);
  LoopOptions large{.steps = 1};
  EXPECT_THROW(Loop(training, std::make_shared<Rounds>(4, kBatch), large).run(), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::train

// A run that is saved and goes on, against one that never stopped; and what stands in its way.
#include "plimsoll/train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plimsoll.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/train/checkpoint_file.h"
#include "plimsoll/train/checkpoint_folder.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/trainer.h"
#include "tests/in_folder.h"
#include "tests/test_device.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

Model small_model(int64_t width = 16) {
  Net net;
  Value x = net.input("x", {batch, 12});
  x = dropout(net, relu(net, linear(net, "fc1", x, width)), 0.25);
  return classify(std::move(net), linear(net, "fc2", x, 4));
}

TrainingOptions options_with(Optimizer optimizer, uint64_t seed = 1) {
  return {.batch = 8, .optimizer = optimizer, .device = test_device(), .threads = 1, .seed = seed, .measure = false};
}

std::vector<float> losses_of(Training& training, int steps) {
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(training.step());
  return losses;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Checkpoint, GoesOnWithTheBitsOfARunThatNeverStopped) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  std::vector<Optimizer> optimizers = {sgd(0.1), momentum(0.1), adam(0.01), adamw(0.01)};
  if (tests_the_host()) optimizers.insert(optimizers.end(), {lion(0.01), adafactor(0.1)});
  for (const Optimizer& optimizer : optimizers) {
    const std::string path = folder / std::string(name(optimizer.options.optimizer));
    Training whole(small_model(), options_with(optimizer));
    losses_of(whole, 3);
    whole.save(path);
    Training resumed(small_model(), options_with(optimizer));
    resumed.load(path);
    EXPECT_EQ(resumed.steps(), 3);
    EXPECT_EQ(losses_of(resumed, 4), losses_of(whole, 4)) << path;
    for (const std::string& tensor : whole.names()) EXPECT_EQ(resumed.read(tensor), whole.read(tensor)) << tensor;
  }
}

TEST(Checkpoint, OfAnotherModelOrOptimizerSaysWhatDiffersFirst) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  const std::string path = folder / "run";
  Training saved(small_model(), options_with(adam()));
  saved.step();
  saved.save(path);
  Training wider(small_model(24), options_with(adam()));
  const std::vector<float> before = wider.read("fc1.weight");
  EXPECT_EQ(error_of([&] { wider.load(path); }),
            path + " (the model, adam) has 'fc1.weight' as F32[16,12], and this run as F32[24,12]");
  EXPECT_EQ(wider.read("fc1.weight"), before);
  Training other(small_model(), options_with(momentum(0.1)));
  EXPECT_EQ(error_of([&] { other.load(path); }),
            path + " (the model, adam) has no tensor 'optimizer.fc2.bias.velocity', which this run has as F32[4]");
  Training plain(small_model(), options_with(sgd(0.1)));
  EXPECT_NE(error_of([&] { plain.load(path); }).find("which this run has not"), std::string::npos);
  EXPECT_NE(error_of([&] { plain.load(folder.path()); }).find("a folder without checkpoints"), std::string::npos);
}

TEST(Checkpoint, TruncatedAndForeignFilesAreRefused) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  const std::string path = folder / "run";
  Training training(small_model(), options_with(adam()));
  training.save(path);
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_THROW(training.load(path), InputError);
  models::write_safetensors(path, {});
  EXPECT_NE(error_of([&] { training.load(path); }).find("plimsoll.version"), std::string::npos);
  EXPECT_THROW(training.load(folder / "absent"), SystemError);
}

// A session of mlp whose state is held in some form.
struct Kept {
  explicit Kept(bool quantized, bool spilled) {
    models::StepOptions asked = {.sizes = {{"batch", 4}}};
    asked.train.eight_bit_state = quantized;
    models::Step step = models::build_whole_step(models::find_model("mlp"), asked);
    if (spilled) step.program = program::spill_state(std::move(step.program), 0);
    session = std::make_unique<run::Session>(step.program, on_test_device(1), machine_budget());
    start_all(step.inits);
  }
  void start_all(const std::vector<models::Init>& inits) const {
    for (size_t i = 0; i < inits.size(); ++i) {
      run::Executor& executor = session->executor();
      start_value(executor, executor.program().parameters[i], inits[i], 1, i);
    }
  }
  std::vector<KeptTensor> tensors() const { return kept_tensors(*session, models::find_model("mlp")); }

  std::unique_ptr<run::Session> session;
};

std::vector<float> steps_of(const Kept& kept, int64_t before, int steps) {
  Trainer trainer(kept.session->executor(), {.steps_before = before});
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(trainer.step());
  return losses;
}

TEST(Checkpoint, HoldsStateIn8BitsAsItIs) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  const Kept whole(true, false);
  steps_of(whole, 0, 2);
  save_checkpoint(folder / "run", whole.tensors(), {.step = 2});
  const Checkpoint checkpoint(folder / "run");
  EXPECT_TRUE(checkpoint.has_8bit_state());
  const Kept resumed(true, false);
  checkpoint.load(resumed.tensors());
  EXPECT_EQ(steps_of(resumed, 2, 3), steps_of(whole, 2, 3));
}

TEST(Checkpoint, IsTheSameWhetherStateIsInMemoryOrInASpillFile) {
  if (!tests_the_host()) GTEST_SKIP() << "updates that stream are of the CPU";
  const TemporaryFolder folder("plimsoll-checkpoints-");
  kernels::use_spill_file(std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR));
  const Kept spilled(false, true);
  steps_of(spilled, 0, 2);
  save_checkpoint(folder / "run", spilled.tensors(), {.step = 2});
  const Kept in_memory(false, false);
  Checkpoint(folder / "run").load(in_memory.tensors());
  const std::vector<float> expected = steps_of(spilled, 2, 2);
  EXPECT_EQ(steps_of(in_memory, 2, 2), expected);
  // And back, into a file of its own.
  save_checkpoint(folder / "back", in_memory.tensors(), {.step = 4});
  kernels::use_spill_file(std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR));
  const Kept again(false, true);
  Checkpoint(folder / "back").load(again.tensors());
  EXPECT_EQ(steps_of(again, 4, 2), steps_of(in_memory, 4, 2));
  kernels::use_spill_file(nullptr);
}

TEST(Checkpoint, GoesOnUnderAnotherBudget) {
  if (!tests_the_host()) GTEST_SKIP() << "budgets of the host";
  const TemporaryFolder folder("plimsoll-checkpoints-");
  const auto options = [](std::string budget) {
    return TrainingOptions{.batch = 256, .budget = std::move(budget), .threads = 1, .measure = false};
  };
  Training whole(zoo("lenet"), options("4GiB"));
  losses_of(whole, 2);
  whole.save(folder / "run");
  Training small(zoo("lenet"), options("auto"));
  small.load(folder / "run");
  EXPECT_EQ(losses_of(small, 2), losses_of(whole, 2));
}

TEST(Checkpoint, HoldsGpt2AsItsPublishedFilesDo) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  const models::ModelInfo& gpt2 = models::find_model("gpt2-nano");
  Training training(gpt2,
                    {.batch = 1, .sizes = {{"sequence", 4}}, .device = test_device(), .threads = 1, .measure = false});
  training.step();
  training.save(folder / "run.safetensors");
  const auto stored = models::read_safetensors(folder / "run.safetensors");
  EXPECT_EQ(stored.at("h.0.attn.c_attn.weight").shape, (Shape{48, 144}));
  const std::vector<float> weights = training.read("h.0.attn.c_attn.weight");  // [144, 48]
  std::vector<float> file(weights.size());
  stored.at("h.0.attn.c_attn.weight").read(file, 0);
  for (const int64_t i : {0, 1, 143, 144, 6911}) {
    EXPECT_EQ(file[static_cast<size_t>(i)], weights[static_cast<size_t>(i % 144 * 48 + i / 144)]) << i;
  }
  Training resumed(
      gpt2,
      {.batch = 1, .sizes = {{"sequence", 4}}, .device = test_device(), .threads = 1, .seed = 5, .measure = false});
  resumed.load(folder / "run.safetensors");
  EXPECT_EQ(resumed.read("h.0.attn.c_attn.weight"), weights);
  EXPECT_EQ(resumed.step(), training.step());
}

// Tensors that need no session.
std::vector<KeptTensor> made_tensors(int64_t floats, float value) {
  KeptTensor tensor{{"w", DType::f32, Shape{floats}}, {}, {}};
  tensor.read = [value](int64_t, std::span<std::byte> into) {
    for (size_t i = 0; i < into.size(); i += 4) std::memcpy(into.data() + i, &value, 4);
  };
  return {tensor};
}

float first_of(const std::string& path) {
  float value = 0;
  models::read_safetensors(path).at("w").read(std::span(&value, 1), 0);
  return value;
}

TEST(CheckpointFolder, KeepsTheNewestAndLinksTheLast) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  std::ofstream(folder / ".step-00000099.safetensors.part") << "half";
  {
    CheckpointFolder checkpoints(folder.path(), 2, kMiB);
    EXPECT_FALSE(fs::exists(folder / ".step-00000099.safetensors.part"));
    EXPECT_THROW(CheckpointFolder(folder.path(), 2, kMiB), SystemError);  // it has one writer
    for (int64_t step = 10; step <= 40; step += 10) {
      checkpoints.save(made_tensors(3 * kMiB, static_cast<float>(step)), {.step = step});
    }
    checkpoints.wait();
    EXPECT_EQ(checkpoints.outcomes().size(), 4U);
    EXPECT_LE(checkpoints.staging_bytes(), kMiB);
  }
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"latest", "step-00000030.safetensors", "step-00000040.safetensors"}));
  EXPECT_EQ(newest_checkpoint(folder.path()), folder / "step-00000040.safetensors");
  EXPECT_EQ(first_of(folder / "latest"), 40);
  EXPECT_EQ(Checkpoint(folder.path()).state().step, 40);
  fs::remove(folder / "latest");
  EXPECT_EQ(newest_checkpoint(folder.path()), folder / "step-00000040.safetensors");
}

TEST(CheckpointFolder, ADiskThatIsFullLeavesTheLastWholeOne) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  CheckpointFolder checkpoints(folder.path(), 3, 2 * kMiB);
  checkpoints.save(made_tensors(100, 1), {.step = 1});
  checkpoints.wait();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{static_cast<rlim_t>(kMiB), limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  checkpoints.save(made_tensors(4 * kMiB, 2), {.step = 2});
  checkpoints.wait();
  setrlimit(RLIMIT_FSIZE, &limit);
  const auto outcomes = checkpoints.outcomes();
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_NE(outcomes[1].error.find("step-00000002"), std::string::npos) << outcomes[1].error;
  EXPECT_EQ(first_of(folder / "latest"), 1);
  EXPECT_FALSE(fs::exists(folder / ".step-00000002.safetensors.part"));
  checkpoints.save(made_tensors(4 * kMiB, 3), {.step = 3});
  checkpoints.wait();
  EXPECT_EQ(first_of(folder / "latest"), 3);
}

TEST(CheckpointFolder, StagingFitsTheModelAndTheBudget) {
  EXPECT_EQ(staging_bytes_for(int64_t{500} * kMiB, int64_t{8} * kGiB), 31 * kMiB);
  EXPECT_EQ(staging_bytes_for(int64_t{500} * kMiB, 64 * kMiB), 2 * kMiB);
  EXPECT_LT(staging_bytes_for(100 * kKiB, kGiB), kMiB);
}

TEST(CheckpointFile, LeavesTheOldOneUntilItIsWhole) {
  const TemporaryFolder folder("plimsoll-checkpoints-");
  save_checkpoint(folder / "run", made_tensors(10, 1), {.step = 1});
  {
    CheckpointFile half(folder / "run");
    half.write(std::vector<std::byte>(100));
    EXPECT_EQ(first_of(folder / "run"), 1);
  }
  EXPECT_EQ(first_of(folder / "run"), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace plimsoll::train

// One checkpoint that several ranks write together.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <new>

#include "plimsoll/device/thread_ranks.h"
#include "plimsoll/kernels/collective.h"
#include "plimsoll/train/checkpoint_folder.h"
#include "plimsoll/train/fitted_training.h"
#include "tests/in_folder.h"
#include "tests/train/outcome.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;
using Group = std::shared_ptr<device::Communicator>;

constexpr int64_t kStaging = 256 << 10;

// A tensor whose byte i is i * `factor`; a rank that reads what is not its part fails.
KeptTensor numbered(const std::string& name, Shape shape, int factor, const RankPart& part) {
  KeptTensor tensor{{name, DType::f32, shape}, {}, {}, static_cast<bool>(part)};
  const int64_t elements = shape.elements();
  const device::Shard own =
      part ? device::shard_of(elements, part.ranks->ranks(), part.ranks->rank()) : device::Shard{0, elements};
  tensor.read = [=](int64_t offset, std::span<std::byte> into) {
    if (offset < own.first * 4 || offset + static_cast<int64_t>(into.size()) > own.end * 4)
      throw SystemError("another rank's");
    for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<std::byte>((static_cast<int>(offset) + i) * factor);
  };
  return tensor;
}

std::vector<KeptTensor> tensors_of(const RankPart& part) {
  return {numbered("weight", {300, 257}, 3, part), numbered("bias", {2}, 5, part),
          numbered("mean", {300, 257}, 7, part), numbered("norm", {}, 1, part)};
}

RunState state_of(int64_t step) { return {.model = "m", .optimizer = "adam", .precision = "f32", .step = step}; }

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SharedCheckpoint, IsThatOfOneProcess) {
  const TemporaryFolder folder("plimsoll-ranks-");
  save_checkpoint(folder / "alone", tensors_of({}), state_of(5));
  for (const int ranks : {2, 3, 4}) {
    const std::string together = folder / std::to_string(ranks);
    device::ThreadRanks(ranks).run([&](const Group& group) {
      const RankPart part{group, ranks, group->rank(), 1};
      ASSERT_TRUE(is_shared_folder(together, part));
      CheckpointFolder checkpoints(together, 2, kStaging, part);
      for (const int64_t step : {3, 4, 5}) {
        checkpoints.save(tensors_of(part), state_of(step));
        checkpoints.poll();
      }
      checkpoints.wait();
      for (const auto& outcome : checkpoints.outcomes()) EXPECT_EQ(outcome.error, "");
    });
    EXPECT_EQ(bytes_of(*newest_checkpoint(together)), bytes_of(folder / "alone")) << ranks;
    EXPECT_FALSE(fs::exists(together + "/step-00000003.safetensors"));
  }
}

// Names and shapes of what a run keeps, and those that are spread over ranks.
struct KeptByRank {
  std::map<std::string, std::string> shapes = {};
  std::vector<std::string> spread = {};
};

KeptByRank kept_by_rank(std::string_view model_name, program::Optimizer optimizer, program::Sharding sharding,
                        const Group& group) {
  StepRequest request{.model = models::find_model(model_name), .threads = 1};
  request.step = options_of({.model = model_name, .batch = 4});
  request.step.train.optimizer = optimizer;
  TrainerOptions options;
  options.part = part_of_rank(group, 4);
  const ModelForms model(request_of_part(request, options.part, sharding));
  FittedTraining training(model, "", options);
  EXPECT_FALSE(training.fit(machine_budget()));
  KeptByRank kept;
  for (const KeptTensor& tensor : training.kept()) {
    kept.shapes[tensor.spec.name] = tensor.spec.shape.text();
    if (tensor.is_spread) kept.spread.push_back(tensor.spec.name);
  }
  return kept;
}

// Also of weights that files hold transposed, and of state that has another shape than its parameter.
TEST(SharedCheckpoint, HasTheTensorsOfOneProcess) {
  using program::Optimizer;
  using program::Sharding;
  const auto compare = [](const char* model, Optimizer optimizer, Sharding sharding) {
    const KeptByRank alone = kept_by_rank(model, optimizer, Sharding::none, nullptr);
    device::ThreadRanks(2).run([&](const Group& group) {
      const kernels::CommunicatorScope scope(group);
      const KeptByRank ours = kept_by_rank(model, optimizer, sharding, group);
      EXPECT_EQ(ours.shapes, alone.shapes) << model << name(sharding);
      EXPECT_EQ(ours.spread.empty(), sharding == Sharding::none) << model;
      for (const std::string& name : ours.spread) EXPECT_TRUE(name.starts_with("optimizer.")) << name;
    });
  };
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients}) {
    compare("gpt2-nano", Optimizer::adam, sharding);
  }
  for (const char* model : {"mlp", "gpt2-nano"}) compare(model, Optimizer::adafactor, Sharding::none);
}

// What one rank cannot write nobody has; the checkpoint before stays.
TEST(SharedCheckpoint, IsWholeOrAbsent) {
  const TemporaryFolder folder("plimsoll-ranks-");
  const std::string together = folder / "run";
  device::ThreadRanks(3).run([&](const Group& group) {
    const RankPart part{group, 3, group->rank(), 1};
    CheckpointFolder checkpoints(together, 2, kStaging, part);
    checkpoints.save(tensors_of(part), state_of(1));
    checkpoints.wait();
    EXPECT_EQ(checkpoints.outcomes().at(0).error, "");
    std::vector<KeptTensor> tensors = tensors_of(part);
    if (group->rank() == 1) tensors[2].read = [](int64_t, std::span<std::byte>) { throw SystemError("disk on fire"); };
    checkpoints.save(tensors, state_of(2));
    checkpoints.wait();
    const auto outcomes = checkpoints.outcomes();
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].error, "rank 1: disk on fire");
    group->barrier();
    EXPECT_EQ(newest_checkpoint(together), together + "/step-00000001.safetensors");
    for (const auto& entry : fs::directory_iterator(together)) {
      EXPECT_FALSE(entry.path().filename().string().ends_with(".part")) << entry.path();
    }
  });
}

// Memory that is not there is no reason to wait for ever.
TEST(SharedCheckpoint, WithoutMemoryIsToldAsAnyOther) {
  const TemporaryFolder folder("plimsoll-ranks-");
  CheckpointFolder checkpoints(folder / "run", 2, kStaging);
  std::vector<KeptTensor> tensors = tensors_of({});
  tensors[2].read = [](int64_t, std::span<std::byte>) { throw std::bad_alloc(); };
  checkpoints.save(tensors, state_of(1));
  checkpoints.wait();
  const auto outcomes = checkpoints.outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_NE(outcomes[0].error, "");
  EXPECT_EQ(newest_checkpoint(folder / "run"), std::nullopt);
}

// As a run leaves it that is killed while ranks write.
TEST(SharedCheckpoint, WithoutItsNameIsRemovedByTheNextRun) {
  const TemporaryFolder folder("plimsoll-ranks-");
  const std::string together = folder / "run";
  device::ThreadRanks(2).run([&](const Group& group) {
    const RankPart part{group, 2, group->rank(), 1};
    CheckpointFolder checkpoints(together, 2, kStaging, part);
    checkpoints.save(tensors_of(part), state_of(1));  // and nobody gives it its name
  });
  EXPECT_TRUE(fs::exists(together + "/.step-00000001.safetensors.part"));
  EXPECT_EQ(newest_checkpoint(together), std::nullopt);
  CheckpointFolder(together, 2, kStaging);
  EXPECT_FALSE(fs::exists(together + "/.step-00000001.safetensors.part"));
}

// Before the first step, rather than with the first checkpoint.
TEST(SharedCheckpoint, NeedsAFolderThatCanBeWrittenTo) {
  EXPECT_THROW(CheckpointFolder("/proc", 2, kStaging), SystemError);
  EXPECT_THROW(device::ThreadRanks(2).run([](const Group& group) {
    is_shared_folder("/proc", {group, 2, group->rank(), 1});
  }),
               SystemError);
}

}  // namespace
}  // namespace plimsoll::train

// Clipping by the norm of all gradients together, where these come in micro-batches and where state is in a spill file.
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/kernels/spill.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/micro_batch_trainer.h"
#include "tests/test_device.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kBatch = 12;
constexpr int kSteps = 4;
constexpr double kNorm = 0.05;  // far below that of the gradients

models::StepOptions options(std::optional<double> clip) {
  models::StepOptions asked = {.sizes = {{"batch", kBatch}}};
  asked.train.optimizer = program::Optimizer::momentum;
  asked.train.clip_norm = clip;
  return asked;
}

const models::ModelInfo& model() { return models::find_model("lenet"); }

void start(run::Executor& executor, const std::vector<models::Init>& inits) {
  for (size_t i = 0; i < inits.size(); ++i) start_value(executor, executor.program().parameters[i], inits[i], 1, i);
}

template <class T>
std::vector<float> losses_of(T& trainer) {
  std::vector<float> losses;
  for (int i = 0; i < kSteps; ++i) losses.push_back(trainer.step());
  return losses;
}

const TrainerOptions kTrainer = {.rate = 0.1};

std::vector<float> whole_losses(std::optional<double> clip, bool spills = false) {
  models::Step step = models::build_whole_step(model(), options(clip));
  if (spills) step.program = program::spill_state(std::move(step.program), 0);
  run::Session session(step.program, on_test_device(), machine_budget());
  start(session.executor(), step.inits);
  Trainer trainer(session.executor(), kTrainer);
  return losses_of(trainer);
}

std::vector<float> micro_batch_losses(std::optional<double> clip, const std::vector<int64_t>& sizes) {
  const models::MicroBatchStep cut = models::build_micro_batch_step(model(), options(clip));
  std::vector<run::Planned> programs;
  programs.push_back(run::plan_as_it_is(program::bind(cut.split.micro_batch, {{"batch", sizes[0]}}), on_test_device()));
  if (sizes.back() != sizes[0]) {
    programs.push_back(
        run::plan_as_it_is(program::bind(cut.split.micro_batch, {{"batch", sizes.back()}}), on_test_device()));
  }
  programs.push_back(run::plan_as_it_is(cut.split.update, on_test_device()));
  run::Session session(std::move(programs), machine_budget());
  start(session.executor(), cut.inits);
  MicroBatchTrainer trainer(micro_batches_of(session, sizes, cut.split), kTrainer);
  return losses_of(trainer);
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << "step " << i + 1;
}

TEST(Clip, IsOfTheWholeBatchInMicroBatches) {
  const std::vector<float> whole = whole_losses(kNorm);
  EXPECT_GT(std::abs(whole.back() - whole_losses({}).back()), 1e-3) << "the norm must be one that clips";
  expect_near(micro_batch_losses(kNorm, {4, 4, 4}), whole);
  expect_near(micro_batch_losses(kNorm, {5, 5, 2}), whole);
}

// Not of clipping, but of the same trainer: given up after two of three micro-batches, a step leaves nothing.
TEST(StepGivenUp, LeavesParametersStateAndSumsAsTheyWere) {
  const models::MicroBatchStep cut = models::build_micro_batch_step(model(), options(kNorm));
  std::vector<run::Planned> programs;
  programs.push_back(run::plan_as_it_is(program::bind(cut.split.micro_batch, {{"batch", 4}}), on_test_device()));
  programs.push_back(run::plan_as_it_is(cut.split.update, on_test_device()));
  run::Session session(std::move(programs), machine_budget());
  start(session.executor(), cut.inits);
  MicroBatchTrainer trainer(micro_batches_of(session, {4, 4, 4}, cut.split), kTrainer);
  std::vector<float> losses = {trainer.step()};
  int asked = 0;
  trainer.gives_up = [&] { return ++asked == 2; };
  EXPECT_THROW(trainer.step(), StepGivenUp);
  EXPECT_EQ(trainer.steps(), 1);
  EXPECT_EQ(asked, 2);
  while (losses.size() < size_t{kSteps}) losses.push_back(trainer.step());
  EXPECT_EQ(losses, micro_batch_losses(kNorm, {4, 4, 4}));
}

TEST(Clip, GivesTheSameBitsWithStateInASpillFile) {
  kernels::use_spill_file(std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR));
  EXPECT_EQ(whole_losses(kNorm, true), whole_losses(kNorm));
  kernels::use_spill_file(nullptr);
}

}  // namespace
}  // namespace plimsoll::train

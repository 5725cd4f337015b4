// Optimizer state in a spill file against state in memory, faults on the way, and budgets that change between steps.
#include "plimsoll/kernels/spill.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/models/step.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/overhead.h"
#include "plimsoll/train/parts_trainer.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

// On a disk, as the tests' temporary folder may not be.
std::shared_ptr<SpillFile> new_file() { return std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR); }

constexpr int64_t kBatch = 48;

models::StepOptions options(program::Optimizer optimizer = program::Optimizer::adam) {
  models::StepOptions asked = {.sizes = {{"batch", kBatch}}};
  asked.train.optimizer = optimizer;
  return asked;
}

const models::ModelInfo& model() { return models::find_model("mlp"); }

void start(run::Executor& executor, const std::vector<models::Init>& inits) {
  for (size_t i = 0; i < inits.size(); ++i) {
    models::draw(inits[i], executor.data<float>(executor.program().parameters[i]), 1, i);
  }
}

std::vector<float> losses(program::Optimizer optimizer, bool spills) {
  models::Step step = models::build_whole_step(model(), options(optimizer));
  if (spills) step.program = program::spill_state(std::move(step.program), 0);
  run::Session session(step.program, {}, machine_budget());
  start(session.executor(), step.inits);
  train::Trainer trainer(session.executor(), {});
  std::vector<float> found;
  for (int i = 0; i < 4; ++i) found.push_back(trainer.step());
  return found;
}

TEST(SpilledState, GivesTheSameBitsAsStateInMemory) {
  for (const auto optimizer : {program::Optimizer::momentum, program::Optimizer::adam, program::Optimizer::adamw}) {
    kernels::use_spill_file(new_file());
    EXPECT_EQ(losses(optimizer, true), losses(optimizer, false)) << name(optimizer);
  }
  kernels::use_spill_file(nullptr);
}

TEST(SpilledState, TakesNoArena) {
  kernels::use_spill_file(new_file());
  const program::Program step = models::build_step(model(), options());
  const int64_t plain = run::plan_as_it_is(step, {}).arena_bytes();
  const int64_t spilled = run::plan_as_it_is(program::spill_state(step, 0), {}).arena_bytes();
  EXPECT_LT(spilled, plain - 2 * 669'706 * 4 + 16 * kMiB);
  kernels::use_spill_file(nullptr);
  EXPECT_THROW(run::plan_as_it_is(program::spill_state(step, 0), {}), UnsupportedError);
}

TEST(SpilledState, EndsInATypedErrorWhenTheDiskIsFullMidRun) {
  const auto file = new_file();
  kernels::use_spill_file(file);
  const program::Program step = program::spill_state(models::build_step(model(), options()), 0);
  {
    run::Session session(step, {}, machine_budget());
    train::Trainer trainer(session.executor(), {});
    trainer.step();
    file->fail_transfer(7, ENOSPC);
    EXPECT_THROW(trainer.step(), SystemError);
  }
  kernels::use_spill_file(new_file());
  EXPECT_EQ(losses(program::Optimizer::adam, true), losses(program::Optimizer::adam, false));
  kernels::use_spill_file(nullptr);
}

constexpr int64_t kLargeBatch = 600;

plan::StepForms forms_of(const models::Step& step, const models::PartsStep& parts) {
  return {kLargeBatch, [&step] { return kernels::prepare(step.program); },
          [&parts](int64_t size) {
            return kernels::prepare(program::bind(parts.split.part, {{"batch", size}}));
          },
          [&parts] { return kernels::prepare(parts.split.update); }};
}

// For an arena of about so many bytes in this process.
Budget budget_for(int64_t arena_bytes) {
  const int64_t held = process_memory().bytes();
  return {train::process_bytes(arena_bytes, train::booked_overhead({.steps = 0, .threads = 2}, held)), "test"};
}

TEST(Refit, GoesOnWithinALowerBudget) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows while the step is planned again";
  const models::StepOptions asked = {.sizes = {{"batch", kLargeBatch}}};
  const models::ModelInfo& lenet = models::find_model("lenet");
  const models::Step step = models::build_whole_step(lenet, asked);
  const models::PartsStep parts = models::build_parts_step(lenet, asked);
  const plan::StepForms forms = forms_of(step, parts);
  std::vector<float> expected;
  {
    run::Session session(step.program, {}, machine_budget());
    start(session.executor(), step.inits);
    train::Trainer trainer(session.executor(), {});
    for (int i = 0; i < 3; ++i) expected.push_back(trainer.step());
  }
  auto fitted = train::fit_step(forms, machine_budget());
  auto& fit = std::get<train::Fit>(fitted);
  start(fit.session->executor(), step.inits);
  {
    train::Trainer trainer(fit.session->executor(), {});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(trainer.step(), expected[static_cast<size_t>(i)]);
  }
  SpillFile stash(PLIMSOLL_SOURCE_DIR);
  auto again = train::refit_step(fit, forms, budget_for(fit.plan.arena_bytes / 2), stash);
  ASSERT_TRUE(std::holds_alternative<train::Fit>(again));
  auto& refit = std::get<train::Fit>(again);
  ASSERT_TRUE(refit.plan.in_parts());
  train::PartsTrainer trainer(train::parts_of(*refit.session, refit.plan.sizes, parts.split), {});
  EXPECT_NEAR(trainer.step(), expected[2], 1e-5);
}

}  // namespace
}  // namespace plimsoll

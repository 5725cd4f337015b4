// Optimizer state in a spill file against state in memory, faults on the way, and budgets that change between steps.
#include "plimsoll/kernels/spill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/models/step.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/program/text.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/measure.h"
#include "plimsoll/train/micro_batch_trainer.h"
#include "plimsoll/train/overhead.h"
#include "tests/memory/sanitized.h"
#include "tests/test_device.h"

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
    train::start_value(executor, executor.program().parameters[i], inits[i], 1, i);
  }
}

std::vector<float> losses(program::Optimizer optimizer, bool spills) {
  models::Step step = models::build_whole_step(model(), options(optimizer));
  if (spills) step.program = program::spill_state(std::move(step.program), 0);
  run::Session session(step.program, on_test_device(), machine_budget());
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

TEST(SpilledState, IsNotTouchedWhenItsKernelsAreMeasured) {
  for (const auto optimizer : {program::Optimizer::momentum, program::Optimizer::adam}) {
    kernels::use_spill_file(new_file());
    const models::Step step = models::build_whole_step(model(), options(optimizer));
    const auto spilled = kernels::prepare(program::spill_state(step.program, 0), on_test_device());
    plan::CostTable table;
    train::measure_costs(spilled, {.budget = machine_budget(), .time_limit_s = 10}, table);
    const bool is_measured = std::any_of(table.begin(), table.end(), [](const auto& entry) {
      return entry.first.find("_spilled") != std::string::npos;
    });
    EXPECT_TRUE(is_measured) << "no update was timed: this shows nothing";
    EXPECT_EQ(losses(optimizer, true), losses(optimizer, false)) << name(optimizer);
  }
  kernels::use_spill_file(nullptr);
}

TEST(SpilledState, TakesNoArena) {
  kernels::use_spill_file(new_file());
  const program::Program step = models::build_step(model(), options());
  const int64_t plain = run::plan_as_it_is(step, on_test_device()).arena_bytes();
  const int64_t spilled = run::plan_as_it_is(program::spill_state(step, 0), on_test_device()).arena_bytes();
  EXPECT_LT(spilled, plain - 2 * 669'706 * 4 + 16 * kMiB);
  kernels::use_spill_file(nullptr);
  EXPECT_THROW(run::plan_as_it_is(program::spill_state(step, 0), on_test_device()), UnsupportedError);
}

TEST(SpilledState, EndsInATypedErrorWhenTheDiskIsFullMidRun) {
  const auto file = new_file();
  kernels::use_spill_file(file);
  const program::Program step = program::spill_state(models::build_step(model(), options()), 0);
  {
    run::Session session(step, on_test_device(), machine_budget());
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

plan::StepForms forms_of(const models::Step& step, const models::MicroBatchStep& micro_batches) {
  return {
      kLargeBatch, [&step] { return kernels::prepare(step.program, on_test_device()); },
      [&micro_batches](int64_t size) {
        return kernels::prepare(program::bind(micro_batches.split.micro_batch, {{"batch", size}}), on_test_device());
      },
      [&micro_batches] { return kernels::prepare(micro_batches.split.update, on_test_device()); }};
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
  const models::MicroBatchStep micro_batches = models::build_micro_batch_step(lenet, asked);
  const plan::StepForms forms = forms_of(step, micro_batches);
  std::vector<float> expected;
  {
    run::Session session(step.program, on_test_device(), machine_budget());
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
  SpillFile spill_store(PLIMSOLL_SOURCE_DIR);
  auto again = train::refit_step(fit, forms, budget_for(fit.plan.arena_bytes / 2), spill_store);
  ASSERT_TRUE(std::holds_alternative<train::Fit>(again));
  auto& refit = std::get<train::Fit>(again);
  ASSERT_TRUE(refit.plan.in_micro_batches());
  train::MicroBatchTrainer trainer(train::micro_batches_of(*refit.session, refit.plan.sizes, micro_batches.split), {});
  EXPECT_NEAR(trainer.step(), expected[2], 1e-5);
}

// Names with the same std::hash, as libstdc++ has it (MurmurHash64A): its rounds over 8 bytes can be undone.
class Collision {
 public:
  static std::pair<std::string, std::string> names() {
    const std::string one = "a.weightb.weight";
    const std::string other = "c.weight";
    const uint64_t after_one = (start() ^ mixed(word(one, 0))) * kMul;
    const uint64_t after_other = (start() ^ mixed(word(other, 0))) * kMul;
    const uint64_t last = unmixed(after_one ^ after_other ^ mixed(word(one, 8)));
    return {one, other + std::string(reinterpret_cast<const char*>(&last), sizeof(last))};
  }

 private:
  static constexpr uint64_t kMul = 0xc6a4a7935bd1e995;
  static uint64_t start() { return 0xc70f6907U ^ (16 * kMul); }
  static uint64_t shifted(uint64_t x) { return x ^ (x >> 47); }  // its own inverse
  static uint64_t mixed(uint64_t x) { return shifted(x * kMul) * kMul; }
  static uint64_t unmixed(uint64_t x) { return shifted(x * inverse()) * inverse(); }
  static uint64_t inverse() {
    uint64_t inverse = kMul;  // each round doubles the bits that are right
    for (int i = 0; i < 6; ++i) inverse *= 2 - kMul * inverse;
    return inverse;
  }
  static uint64_t word(const std::string& text, size_t at) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof(word));
    return word;
  }
};

TEST(Refit, KeepsParametersApartWhoseNamesHaveOneHash) {
  const std::pair<std::string, std::string> names = Collision::names();
  const std::string& one = names.first;
  const std::string& other = names.second;
  if (std::hash<std::string>()(one) != std::hash<std::string>()(other)) GTEST_SKIP() << "another standard library";
  const program::Program program = program::parse_program(
      "input %x: f32[4]\nparameter %a: f32[4]\nparameter %b: f32[4]\n%y = add(%x, %a)\n%z = mul(%y, %b)\noutput %z\n");
  const plan::StepForms forms{1, [&] {
                                kernels::Lowered lowered = kernels::prepare(program, on_test_device(1));
                                lowered.program[program.parameters[0]].name = one;
                                lowered.program[program.parameters[1]].name = other;
                                return lowered;
                              }};
  auto fitted = train::fit_step(forms, machine_budget());
  auto& fit = std::get<train::Fit>(fitted);
  for (size_t i = 0; i < 2; ++i) {
    fit.session->executor().write<float>(program.parameters[i], std::vector<float>(4, static_cast<float>(i + 1)));
  }
  const auto data = [&](train::Fit& of, size_t i) { return of.session->executor().read<float>(program.parameters[i]); };
  SpillFile spill_store(PLIMSOLL_SOURCE_DIR);
  auto again = train::refit_step(fit, forms, machine_budget(), spill_store);
  auto& refit = std::get<train::Fit>(again);
  EXPECT_EQ(data(refit, 0)[0], 1);
  EXPECT_EQ(data(refit, 1)[0], 2);
}

}  // namespace
}  // namespace plimsoll

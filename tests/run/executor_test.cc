#include "plimsoll/run/executor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/trainer.h"
#include "tests/kernels/against_reference.h"
#include "tests/run/allocation_count.h"
#include "tests/run/zoo_names.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

using models::ModelInfo;
using program::Program;

class ZooRun : public testing::TestWithParam<std::string_view> {
 protected:
  const ModelInfo& model() const { return models::find_model(GetParam()); }

  models::Step step(program::Optimizer optimizer) const {
    models::StepOptions options = {.sizes = {{"batch", 3}}, .size = models::Size::small};
    if (model().usual.contains("sequence")) options.sizes["sequence"] = 5;
    options.train.optimizer = optimizer;
    return models::build_whole_step(model(), options);
  }
};

INSTANTIATE_TEST_SUITE_P(All, ZooRun, testing::ValuesIn(zoo_names()), zoo_test_name);

program::Arrays<double> start_values(const models::Step& step) {
  program::Arrays<double> values = random_values(step.program, {});
  uint64_t stream = 0;
  const auto start = [&](const auto& list, const auto& inits) {
    for (size_t i = 0; i < inits.size(); ++i) {
      std::vector<double>& reals = values[step.program[list[i]].name].reals;
      reals = models::draw(inits[i], static_cast<int64_t>(reals.size()), 1, stream++);
      for (double& real : reals) real = static_cast<float>(real);
    }
  };
  start(step.program.parameters, step.inits);
  start(step.program.state, step.state_inits);
  for (size_t i = step.state_inits.size(); i < step.program.state.size(); ++i) {
    auto& array = values[step.program[step.program.state[i]].name];
    std::fill(array.reals.begin(), array.reals.end(), 0);
    std::fill(array.ints.begin(), array.ints.end(), 0);
  }
  values["optimizer.rate"].reals = {static_cast<float>(1e-2)};
  return values;
}

TEST_P(ZooRun, TrainsAsTheReferenceDoes) {
  const models::Step step = this->step(program::Optimizer::momentum);
  expect_agreement_of_a_step(step.program, start_values(step));
}

TEST_P(ZooRun, InfersAsTheReferenceDoesInNoMoreMemoryThanAsWritten) {
  models::StepOptions options = {.training = false, .sizes = {{"batch", 3}}, .size = models::Size::small};
  if (model().usual.contains("sequence")) options.sizes["sequence"] = 5;
  const models::Step step = models::build_whole_step(model(), options);
  expect_agreement(step.program, start_values(step), 1e-4);
  const models::Model written = model().build({.training = false}, models::Size::small);
  const Program bound = program::bind(written.program, models::bindings(model(), options.sizes));
  EXPECT_LE(plan::estimate(kernels::prepare(step.program, on_test_device())).peak_bytes,
            plan::estimate(kernels::prepare(bound, on_test_device())).peak_bytes);
}

TEST_P(ZooRun, TakesWhatWasEstimated) {
  const models::Step step = this->step(program::Optimizer::adam);
  run::Session session(step.program, on_test_device(), machine_budget());
  EXPECT_EQ(plan::estimate(kernels::prepare(step.program, on_test_device())).peak_bytes,
            session.executor().arena_bytes());
}

TEST_P(ZooRun, GivesTheSameBitsTwice) {
  const models::Step step = this->step(program::Optimizer::adam);
  const auto values = start_values(step);
  std::vector<std::vector<float>> losses(2);
  for (std::vector<float>& found : losses) {
    run::Session session(step.program, on_test_device(), machine_budget());
    load(session.executor(), values);
    for (int i = 0; i < 3; ++i) {
      session.executor().step();
      found.push_back(session.executor().read_one<float>(step.program.outputs[0]));
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(Executor, AllocatesNothingInAStepOfOurKernels) {
  const Program program = program::parse_program(
      "input %x: f32[300,50]\ninput %t: i64[300]\ninput %g: f32[50]\n"
      "%n = layer_norm(%x, %g)\n%r = relu(%n)\n%y = add(%r, %g)\n%l = cross_entropy(%y, %t)\noutput %l\n");
  run::Session session(program, on_test_device(), machine_budget());
  load(session.executor(), random_values(program, {}));
  session.executor().step();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(allocations_of_a_step(session.executor()), 0);
}

TEST(Executor, NamesTheTensorInWhichAKernelFoundAFault) {
  const Program program = program::parse_program("input %rows: f32[4]\n%y = exp(%rows)\noutput %y\n");
  run::Planned planned = run::plan_as_it_is(program, {.device = "sim"});
  planned.lowered.ops[0].kernel.bind = [](const kernels::Memory& memory) -> kernels::Task {
    return [memory] { *memory.fault = {.op = memory.op + 1, .operand = 0, .value = 9, .place = 2, .most = 3}; };
  };
  std::vector<run::Planned> programs;
  programs.push_back(std::move(planned));
  run::Session session(std::move(programs), machine_budget());
  try {
    session.executor().step();
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "exp %y: index 9 at place 2 of rows is out of range, expected 0 to 3");
  }
}

TEST(Executor, RefusesAnArenaThatIsTooSmall) {
  const Program program = program::parse_program("input %x: f32[300]\n%y = exp(%x)\noutput %y\n");
  kernels::Lowered lowered = kernels::prepare(program, on_test_device());
  plan::MemoryPlan memory = plan::plan_memory(lowered);
  EXPECT_EQ(memory.placement.arena_bytes, 2 * align_up(1200, lowered.alignment));
  const auto pages = device::find_device(lowered.device).pages(2048);
  Arena arena(*pages, 2048, {1 << 20, "test"});
  EXPECT_THROW(run::Executor(lowered, memory, arena), ArgumentError);
}

TEST(Trainer, LowersTheLossOfAnMlp) {
  models::StepOptions options = {.sizes = {{"batch", 16}}};
  const models::Step step = models::build_whole_step(models::find_model("mlp"), options);
  run::Session session(step.program, on_test_device(), machine_budget());
  run::Executor& executor = session.executor();
  for (size_t i = 0; i < step.inits.size(); ++i) {
    train::start_value(executor, step.program.parameters[i], step.inits[i], 1, i);
  }
  train::Trainer trainer(executor, {});
  const float first = trainer.step();
  for (int i = 0; i < 9; ++i) trainer.step();
  EXPECT_LT(trainer.step(), first / 2);
}

}  // namespace
}  // namespace plimsoll

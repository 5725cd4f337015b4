// Whole steps in f16 and bf16: every model of the zoo runs in the memory that was predicted, and training goes as it
// does in f32.
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/synthetic.h"
#include "plimsoll/train/trainer.h"
#include "tests/run/allocation_count.h"
#include "tests/run/zoo_names.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

models::Step small_step(const models::ModelInfo& model, DType precision, bool training = true) {
  models::StepOptions options = {
      .training = training, .precision = precision, .sizes = {{"batch", 3}}, .size = models::Size::small};
  if (model.usual.contains("sequence")) options.sizes["sequence"] = 5;
  return models::build_whole_step(model, options);
}

void start(run::Executor& executor, const models::Step& step) {
  uint64_t stream = 0;
  const auto draw = [&](const std::vector<program::Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i) {
      const int64_t count = step.program[values[i]].type.shape.elements().constant();
      std::vector<float> floats(static_cast<size_t>(count));
      models::draw(inits[i], floats, 1, stream++);
      run::write_floats(executor, values[i], floats);
    }
  };
  draw(step.program.parameters, step.inits);
  draw(step.program.state, step.state_inits);
}

// The losses of the first steps.
std::vector<float> losses(std::string_view model, DType precision, int steps) {
  const models::Step step = small_step(models::find_model(model), precision);
  run::Session session(step.program, on_test_device(1), machine_budget());
  start(session.executor(), step);
  train::Trainer trainer(session.executor(), {});
  std::vector<float> all;
  for (int i = 0; i < steps; ++i) all.push_back(trainer.step());
  return all;
}

class ZooPrecision : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(All, ZooPrecision, testing::ValuesIn(zoo_names()), zoo_test_name);

TEST_P(ZooPrecision, TrainsAndInfersInWhatWasPredicted) {
  for (const DType precision : {DType::bf16, DType::f16}) {
    for (const bool training : {true, false}) {
      const models::Step step = small_step(models::find_model(GetParam()), precision, training);
      run::Session session(step.program, on_test_device(), machine_budget());
      run::Executor& executor = session.executor();
      EXPECT_EQ(plan::estimate(kernels::prepare(step.program, on_test_device())).peak_bytes, executor.arena_bytes());
      start(executor, step);
      train::fill_inputs(executor, 1);
      executor.step();
      for (const float x : run::read_floats(executor, step.program.outputs[0])) ASSERT_TRUE(std::isfinite(x));
    }
  }
}

// To a few percent of the first loss. f16 is late by the steps that it skips while its scale comes down.
TEST(Precision, TrainingGoesAsInF32) {
  for (const char* model : {"gpt2-nano", "resnet18"}) {
    const std::vector<float> wide = losses(model, DType::f32, 30);
    const std::vector<float> bf16 = losses(model, DType::bf16, 30);
    for (size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(bf16[i], wide[i], 0.06F * wide[0]) << model << " step " << i;
    const std::vector<float> f16 = losses(model, DType::f16, 30);
    EXPECT_NEAR(f16[0], wide[0], 0.003F * wide[0]) << model;
    EXPECT_NEAR(f16.back(), wide.back(), 0.1F * wide[0]) << model;
  }
}

// At first its scale is too large, so the step is skipped and the scale halved; the weights stay as they were.
TEST(Precision, AStepWhoseGradientsOverflowIsSkipped) {
  const models::Step step = small_step(models::find_model("mlp"), DType::f16);
  run::Session session(step.program, on_test_device(), machine_budget());
  run::Executor& executor = session.executor();
  start(executor, step);
  train::Trainer trainer(executor, {});
  const program::Value scale = step.program.find("optimizer.loss_scale");
  const auto weights = [&] { return run::read_floats(executor, step.program.parameters[0]); };
  const std::vector<float> before = weights();
  executor.write<int64_t>(scale, std::vector<int64_t>{20, 0});  // 2^36: above all of f16
  trainer.step();
  EXPECT_EQ(weights(), before);
  EXPECT_EQ(executor.read<int64_t>(scale)[0], 19);
  executor.write<int64_t>(scale, std::vector<int64_t>{-16, 0});  // 1
  trainer.step();
  EXPECT_NE(weights(), before);
  EXPECT_EQ(executor.read<int64_t>(scale)[0], -16);
  EXPECT_EQ(executor.read<int64_t>(scale)[1], 1);
}

TEST(Precision, AllocatesNothingInAStep) {
  const program::Program program = program::parse_program(
      "input %x: bf16[40,1000]\ninput %w: f32[1000]\n%a = gelu_tanh(%x)\n%b = layer_norm(%a, %w)\n"
      "%c = softmax(%b)\n%d = add(%c, %x)\noutput %d\n");
  run::Session session(program, on_test_device(), machine_budget());
  session.executor().step();
  EXPECT_EQ(allocations_of_a_step(session.executor()), 0);
}

}  // namespace
}  // namespace plimsoll

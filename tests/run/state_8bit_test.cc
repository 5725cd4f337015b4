// Training with the optimizer's state in 8 bits: in the memory that was predicted, and close to what f32 comes to.
#include <gtest/gtest.h>

#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/trainer.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

struct Training {
  std::vector<float> losses;
  int64_t arena_bytes = 0;
};

// Thirty steps of lenet, whose two large matrices have their state in codes.
Training train(program::Optimizer optimizer, bool coded) {
  models::StepOptions options = {.sizes = {{"batch", 4}}};
  options.train.optimizer = optimizer;
  options.train.eight_bit_state = coded;
  const models::Step step = models::build_whole_step(models::find_model("lenet"), options);
  run::Session session(step.program, on_test_device(1), machine_budget());
  run::Executor& executor = session.executor();
  EXPECT_EQ(plan::estimate(kernels::prepare(step.program, on_test_device(1))).peak_bytes, executor.arena_bytes());
  for (size_t i = 0; i < step.inits.size(); ++i) {
    train::start_value(executor, step.program.parameters[i], step.inits[i], 1, i);
  }
  train::Trainer trainer(executor, {.rate = optimizer == program::Optimizer::momentum ? 1e-2 : 1e-3});
  Training training{{}, executor.arena_bytes()};
  for (int i = 0; i < 30; ++i) training.losses.push_back(trainer.step());
  return training;
}

// A thousandth of the first loss was measured.
TEST(State8Bit, TrainsNearlyAsF32InLessMemory) {
  for (const auto optimizer : {program::Optimizer::momentum, program::Optimizer::adam, program::Optimizer::adamw}) {
    SCOPED_TRACE(program::name(optimizer));
    const Training wide = train(optimizer, false);
    const Training coded = train(optimizer, true);
    EXPECT_LT(coded.arena_bytes, 0.85 * static_cast<double>(wide.arena_bytes));
    EXPECT_LT(coded.losses.back(), 0.5F * coded.losses.front());
    EXPECT_NE(coded.losses, wide.losses);  // or nothing was rounded
    for (size_t i = 0; i < wide.losses.size(); ++i) {
      EXPECT_NEAR(coded.losses[i], wide.losses[i], 0.01F * wide.losses[0]) << "step " << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll

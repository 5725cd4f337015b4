#include "plimsoll/plan/plan.h"

#include <gtest/gtest.h>

#include "plimsoll/models/step.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::plan {
namespace {

kernels::Lowered small_step(std::string_view model, program::Optimizer optimizer) {
  models::StepOptions options = {.sizes = {{"batch", 3}}, .size = models::Size::small};
  options.train.optimizer = optimizer;
  if (models::find_model(model).usual.contains("sequence")) options.sizes["sequence"] = 5;
  return kernels::prepare(models::build_step(models::find_model(model), options), {.threads = 1});
}

TEST(Plan, WithoutABudgetIsTheProgramAsItIs) {
  for (const models::ModelInfo& model : models::all_models()) {
    SCOPED_TRACE(model.name);
    const kernels::Lowered lowered = small_step(model.name, program::Optimizer::adam);
    const Plan plan = std::get<Plan>(make_plan(lowered));
    EXPECT_EQ(plan.arena_bytes, plan_memory(lowered).placement.arena_bytes);
    const Applied applied = apply(plan, lowered);
    EXPECT_EQ(program::find_problems(applied.lowered.program), std::vector<std::string>{});
    EXPECT_EQ(applied.memory.placement.arena_bytes, plan.arena_bytes);
  }
}

}  // namespace
}  // namespace plimsoll::plan

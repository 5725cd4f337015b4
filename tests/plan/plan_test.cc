#include "plimsoll/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/oracle.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"
#include "tests/memory/sanitized.h"
#include "tests/plan/run_two_steps.h"
#include "tests/plan/small_steps.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

PlanOptions options_for(int64_t budget_bytes) { return {.budget_bytes = budget_bytes, .work_limit = 50'000}; }

class PlanZoo : public testing::TestWithParam<std::string_view> {};

std::vector<std::string_view> names() {
  std::vector<std::string_view> found;
  for (const models::ModelInfo& model : models::all_models()) {
    const bool is_twin = model.name.starts_with("gpt2-") && model.name != "gpt2-nano";  // of gpt2, in its small form
    if (!is_twin) found.push_back(model.name);
  }
  return found;
}

std::string test_name(const testing::TestParamInfo<std::string_view>& tested) {
  std::string name(tested.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PlanZoo, testing::ValuesIn(names()), test_name);

// The smallest budget, two in between by chance, and more than enough.
std::vector<int64_t> budgets_of(const Lowered& lowered, uint32_t seed) {
  const auto refused = make_plan(lowered, options_for(0));
  const int64_t smallest = std::get<Refusal>(refused).smallest_bytes;
  const int64_t unplanned = std::get<Plan>(make_plan(lowered)).arena_bytes;
  std::mt19937 random(seed);
  std::vector<int64_t> budgets = {smallest, INT64_MAX};
  for (int i = 0; i < 2; ++i) budgets.push_back(smallest + static_cast<int64_t>(random() % (unplanned - smallest + 1)));
  return budgets;
}

struct Training {
  program::Optimizer optimizer;
  int64_t batch;
};

std::vector<Training> trainings() {
  using program::Optimizer;
  if (kSanitized) return {{Optimizer::sgd, 3}, {Optimizer::adam, 2}};
  return {{Optimizer::sgd, 3}, {Optimizer::sgd, 8}, {Optimizer::adam, 2}, {Optimizer::adam, 5}};
}

TEST_P(PlanZoo, TakesThePredictedArenaAndChangesNoBit) {
  for (const auto& [optimizer, batch] : trainings()) {
    SCOPED_TRACE(batch);
    const models::Step step = small_step(GetParam(), optimizer, batch);
    const Lowered lowered = kernels::prepare(step.program, {.threads = 1});
    const std::vector<std::byte> unlimited = run_two_steps(step, lowered, plan_memory(lowered));
    for (const int64_t budget : budgets_of(lowered, 7)) {
      SCOPED_TRACE(budget);
      const auto made = make_plan(lowered, options_for(budget));
      ASSERT_TRUE(std::holds_alternative<Plan>(made));
      const Plan& plan = std::get<Plan>(made);
      EXPECT_LE(plan.arena_bytes, budget);
      EXPECT_EQ(find_fault(plan, lowered), std::nullopt);
      const Applied applied = apply(plan, lowered);
      EXPECT_EQ(program::find_problems(applied.lowered.program), std::vector<std::string>{});
      EXPECT_EQ(applied.memory.placement.arena_bytes, plan.arena_bytes);
      EXPECT_TRUE(run_two_steps(step, applied.lowered, applied.memory) == unlimited) << "other bits";
    }
  }
}

TEST_P(PlanZoo, IsRefusedBelowTheSmallestBudgetThatARefusalNames) {
  const Lowered lowered = kernels::prepare(small_step(GetParam(), program::Optimizer::sgd).program, {.threads = 1});
  const auto refused = std::get<Refusal>(make_plan(lowered, options_for(0)));
  EXPECT_GE(refused.smallest_bytes, refused.bound_bytes);
  const auto below = make_plan(lowered, options_for(refused.smallest_bytes - 64));
  ASSERT_TRUE(std::holds_alternative<Refusal>(below));
  EXPECT_EQ(std::get<Refusal>(below).smallest_bytes, refused.smallest_bytes);
}

TEST(Plan, WithoutABudgetIsTheProgramAsItIs) {
  const Lowered lowered = kernels::prepare(small_step("resnet18", program::Optimizer::adam).program, {.threads = 1});
  const Plan plan = std::get<Plan>(make_plan(lowered));
  EXPECT_EQ(plan.arena_bytes, plan_memory(lowered).placement.arena_bytes);
  EXPECT_EQ(plan.measures, std::vector<Measure>{});
  EXPECT_EQ(plan.predicted_s, plan.unplanned_s);
}

// At %d five matrices are alive; either %a or %b can be given up, and %a is the cheaper.
TEST(Plan, ComputesAgainWhatIsCheapest) {
  const Lowered lowered = kernels::prepare(program::parse_program(R"(
    input %x: f32[32,32]
    %a = exp(%x)
    %b = matmul(%a, %a)
    %c = matmul(%b, %b)
    %d = matmul(%c, %c)
    %e = mul(%d, %a)
    %f = mul(%e, %b)
    output %f
  )"),
                                           {.threads = 1});
  const std::vector<double> seconds = {1, 10, 10, 10, 1, 1};
  PlanOptions options = options_for(4 * 4096 + lowered.scratch_bytes()[3]);
  options.op_seconds = seconds;
  const Plan plan = std::get<Plan>(make_plan(lowered, options));
  ASSERT_EQ(plan.measures.size(), 1u);
  EXPECT_EQ(plan.measures[0], (Measure{"recompute", "exp %a", 1, 4096, 1.0}));
  EXPECT_EQ(plan.predicted_s, 34);
  EXPECT_EQ(plan.bound_s, 34);
  EXPECT_EQ(find_fault(plan, lowered), std::nullopt);
}

TEST(Plan, DoesNotComputeAgainFromAnUpdatedParameter) {
  const Lowered lowered = kernels::prepare(program::parse_program(R"(
    input %x: f32[32,32]
    input %rate: f32[]
    parameter %w: f32[32,32]
    %a = matmul(%x, %w)
    %g = matmul(%a, %a)
    %new = sgd(%w, %g, %rate) @update
    %b = matmul(%x, %x)
    %c = matmul(%b, %b)
    %d = matmul(%c, %c)
    %e = mul(%d, %a)
    output %e
  )"),
                                           {.threads = 1});
  const auto made = make_plan(lowered, options_for(4 * 4096 + 64 + lowered.scratch_bytes()[4]));
  ASSERT_TRUE(std::holds_alternative<Refusal>(made));
  EXPECT_EQ(std::get<Refusal>(made).smallest_bytes, std::get<Refusal>(made).bound_bytes);
}

TEST(Plan, GivesStateInAFileNoBytes) {
  kernels::use_spill_file(std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR));
  const models::Step step = small_step("mlp", program::Optimizer::adam);
  const Lowered in_memory = kernels::prepare(step.program, {.threads = 1});
  const Lowered in_file = kernels::prepare(program::spill_state(step.program, 1), {.threads = 1});
  kernels::use_spill_file(nullptr);
  const int64_t before = std::get<Refusal>(make_plan(in_memory, options_for(0))).resident_bytes;
  const Refusal refused = std::get<Refusal>(make_plan(in_file, options_for(0)));
  EXPECT_LT(refused.resident_bytes, before / 2);
  const Plan plan = std::get<Plan>(make_plan(in_file, options_for(refused.smallest_bytes)));
  EXPECT_EQ(find_fault(plan, in_file), std::nullopt);
}

TEST(Plan, PlacesResultsWithoutElements) {
  const Lowered lowered = kernels::prepare(program::parse_program(R"(
    input %x: f32[4,32]
    %a = exp(%x)
    %p, %q = split(%a) {axis=0, sizes=[4,0]}
    %b = neg(%p)
    %r = relu(%q)
    output %b
    output %r
  )"),
                                           {.threads = 1});
  const Plan plan = std::get<Plan>(make_plan(lowered, options_for(1 << 20)));
  EXPECT_EQ(find_fault(plan, lowered), std::nullopt);
  EXPECT_EQ(apply(plan, lowered).memory.placement.arena_bytes, plan.arena_bytes);
}

TEST(Measures, ByOpAreSumsInTheOrderOfTheFirst) {
  const std::vector<Measure> measures = {{"8-bit-state", "state of adam", 1, 100, 0.5},
                                         {"recompute", "relu %a", 1, 10, 0.25},
                                         {"recompute", "conv %b", 2, 20, 1},
                                         {"recompute", "relu %c", 3, 5, 0.5},
                                         {"spill", "%d", 1, 7, 1},
                                         {"spill", "%e", 1, 8, 2}};
  EXPECT_EQ(by_op(measures), (std::vector<Measure>{{"8-bit-state", "state of adam", 1, 100, 0.5},
                                                   {"recompute", "relu x2 (%a, ..)", 4, 15, 0.75},
                                                   {"recompute", "conv %b", 2, 20, 1},
                                                   {"spill", "x2 (%d, ..)", 2, 15, 3}}));
}

TEST(Plan, IsTheSameTwice) {
  const Lowered lowered = kernels::prepare(small_step("gpt2-nano", program::Optimizer::adam).program, {.threads = 1});
  const PlanOptions options = options_for(budgets_of(lowered, 1).back());
  EXPECT_EQ(std::get<Plan>(make_plan(lowered, options)), std::get<Plan>(make_plan(lowered, options)));
}

// What was decided for all ops together stays with a program that a plan was applied to: its ops can be prepared again.
TEST(Plan, AppliedKeepsLayoutsAndScratch) {
  const models::Step step = small_step("resnet18", program::Optimizer::sgd);
  const Lowered lowered = kernels::prepare(step.program, {.threads = 1, .amx_tiles = true});
  PlanOptions tight = {.budget_bytes = 0, .work_limit = 1000};
  tight.budget_bytes = std::get<Refusal>(make_plan(lowered, tight)).smallest_bytes;
  const Applied applied = apply(std::get<Plan>(make_plan(lowered, tight)), lowered);
  const Lowered& planned = applied.lowered;
  EXPECT_GT(planned.program.ops.size(), lowered.program.ops.size()) << "nothing is computed again";
  EXPECT_EQ(planned.layouts.size(), planned.program.values.size());
  EXPECT_EQ(planned.blocked_ops.size(), planned.program.ops.size());
  EXPECT_EQ(planned.spare_bytes, lowered.spare_bytes);
  EXPECT_TRUE(planned.amx_tiles);
  for (size_t op = 0; op < planned.ops.size(); ++op) {
    if (!planned.ops[op].kernel.bind) continue;
    std::vector<bool> made;
    for (const program::Value value : planned.program.ops[op].outputs) made.push_back(static_cast<bool>(value));
    EXPECT_EQ(kernels::prepare_again(planned, op, made).kernel.scratch_bytes, planned.ops[op].kernel.scratch_bytes);
  }
}

TEST(Plan, IsNotAppliedToAnotherProgram) {
  const Lowered small = kernels::prepare(small_step("lenet", program::Optimizer::sgd).program, {.threads = 1});
  const Lowered other = kernels::prepare(small_step("lenet", program::Optimizer::adam).program, {.threads = 1});
  EXPECT_THROW(apply(std::get<Plan>(make_plan(small)), other), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::plan

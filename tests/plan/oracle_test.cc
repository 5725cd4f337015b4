#include "plimsoll/plan/oracle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/program/text.h"
#include "tests/plan/small_steps.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

// a is wanted at both ends of the program, and can be made again in between.
constexpr const char* kProgram = R"(
  input %x: f32[32,32]
  %a = exp(%x)
  %b = matmul(%a, %a)
  %c = matmul(%b, %b)
  %d = matmul(%c, %c)
  %e = mul(%d, %a)
  output %e
)";

class Oracle : public testing::Test {
 protected:
  const Lowered lowered_ = kernels::prepare(program::parse_program(kProgram), {.threads = 1});
  Plan plan_ = std::get<Plan>(make_plan(lowered_, {.budget_bytes = 3 * 4096 + lowered_.scratch_bytes()[1]}));

  void expect_fault(std::string_view part) {
    const auto fault = find_fault(plan_, lowered_);
    ASSERT_TRUE(fault.has_value());
    EXPECT_NE(fault->find(part), std::string::npos) << *fault;
  }
  Step& again() {
    return *std::find_if(plan_.steps.begin(), plan_.steps.end(),
                         [](const Step& step) { return step.kind == StepKind::recompute; });
  }
};

TEST_F(Oracle, AcceptsThePlanAsItWasMade) {
  EXPECT_EQ(find_fault(plan_, lowered_), std::nullopt);
  EXPECT_LT(plan_.arena_bytes, plan_.unplanned_bytes);
}

TEST_F(Oracle, MissesAStepThatIsGone) {
  plan_.steps.erase(plan_.steps.begin() + 1);
  expect_fault("reads %b, which was not made before");
}

TEST_F(Oracle, MissesARecomputationThatIsGone) {
  plan_.steps.erase(plan_.steps.begin() + (&again() - plan_.steps.data()));
  expect_fault("mul %e reads %a, and something was written over it");
}

TEST_F(Oracle, SeesAResultOverWhatIsStillRead) {
  plan_.steps.back().writes[0].offset = plan_.resident[0].offset;
  expect_fault("%x comes in and stays, and something was written over it");
}

TEST_F(Oracle, SeesARunInWrongOrder) {
  std::swap(plan_.steps[0], plan_.steps[1]);
  expect_fault("step 0, matmul %b reads %a, which was not made before");
}

// A plan need not make in place what could be.
TEST_F(Oracle, AcceptsAResultBesideAnOperandThatItCouldReplace) {
  plan_.budget_bytes = INT64_MAX;
  plan_.steps.back().writes[0].offset = align_up(plan_.arena_bytes, 64);
  plan_.arena_bytes = plan_.steps.back().writes[0].offset + 4096;
  EXPECT_EQ(find_fault(plan_, lowered_), std::nullopt);
  const Applied applied = apply(plan_, lowered_);
  const program::Value output = applied.lowered.program.outputs[0];
  EXPECT_EQ(applied.memory.offset_of(applied.lowered.program, output), plan_.steps.back().writes[0].offset);
}

TEST_F(Oracle, SeesASecondRun) {
  again().kind = StepKind::run;
  expect_fault("runs a second time");
}

TEST_F(Oracle, SeesWhatLiesOutsideOfTheArena) {
  plan_.steps[0].writes[0].offset = 3 * 4096;
  expect_fault("do not lie in the arena");
  plan_.steps[0].writes[0].offset = 4;
  expect_fault("at a multiple of 64");
}

TEST_F(Oracle, HoldsThePlanToItsArenaAndBudget) {
  const int64_t reach = plan_.arena_bytes;
  const int64_t budget = plan_.budget_bytes;
  plan_.arena_bytes = reach - 64;
  expect_fault("do not lie in the arena");
  plan_.arena_bytes = budget + 64;
  expect_fault(fmt::format("the budget is {}", budget));
  plan_.budget_bytes = INT64_MAX;
  expect_fault(fmt::format("the plan reaches up to {}", reach));
}

TEST_F(Oracle, SaysInWhatAnotherProgramDiffers) {
  plan_.program.threads = 3;
  expect_fault("it is for 3 threads, this program is prepared for 1");
}

// Every offset moved by a line, every step left out, every pair of neighbours swapped: most of that breaks a plan, and
// what does not must still run to the same bits, which the grid of plan_test.cc shows for plans that the oracle takes.
TEST(OracleOnAModel, RejectsMostRandomChanges) {
  const Lowered lowered = kernels::prepare(small_step("resnet18", program::Optimizer::sgd).program, {.threads = 1});
  const auto refused = std::get<Refusal>(make_plan(lowered, {.budget_bytes = 0, .work_limit = 1000}));
  const Plan plan = std::get<Plan>(make_plan(lowered, {.budget_bytes = refused.smallest_bytes, .work_limit = 1000}));
  int accepted = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    Plan without = plan;
    without.steps.erase(without.steps.begin() + static_cast<std::ptrdiff_t>(i));
    accepted += plan.steps[i].kind == StepKind::run && !find_fault(without, lowered) ? 1 : 0;
    Plan moved = plan;
    if (moved.steps[i].writes.empty()) continue;
    moved.steps[i].writes[0].offset = plan.resident[0].offset;
    accepted += find_fault(moved, lowered) ? 0 : 1;
  }
  EXPECT_EQ(accepted, 0);
}

}  // namespace
}  // namespace plimsoll::plan

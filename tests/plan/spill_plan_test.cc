// Plans that spill results to a file: what they make possible, that they change no bit, and what the oracle sees.
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/plan/oracle.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/plan/plan_json.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"
#include "tests/plan/run_two_steps.h"
#include "tests/plan/small_steps.h"
#include "tests/test_device.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

PlanOptions options_for(int64_t budget_bytes, double bytes_per_s, double processor_s_per_byte = 0) {
  PlanOptions options = {.budget_bytes = budget_bytes, .work_limit = 50'000, .time_limit_s = 1e9};
  options.spill = {.bytes_per_s = bytes_per_s, .processor_s_per_byte = processor_s_per_byte, .least_bytes = 1};
  return options;
}

int count(const Plan& plan, StepKind kind) {
  return static_cast<int>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) { return step.kind == kind; }));
}

class SpillZoo : public testing::TestWithParam<const char*> {
 protected:
  SpillZoo() { kernels::use_spill_file(std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR)); }
  ~SpillZoo() override { kernels::use_spill_file(nullptr); }
};

INSTANTIATE_TEST_SUITE_P(All, SpillZoo, testing::Values("vgg16", "resnet18", "unet", "gpt2-nano", "bert_base"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(SpillZoo, NeedsNoMoreThanRecomputeAloneAndChangesNoBit) {
  const models::Step step = small_step(GetParam(), program::Optimizer::adam);
  const Lowered lowered = kernels::prepare(step.program, on_test_device(1));
  const std::vector<std::byte> unlimited = run_two_steps(step, lowered, plan_memory(lowered));
  const auto smallest = [&](const PlanOptions& options) {
    return std::get<Refusal>(make_plan(lowered, options)).smallest_bytes;
  };
  PlanOptions both = options_for(0, 1e9, 1e-11);
  PlanOptions file_alone = both;
  file_alone.recompute = false;
  const int64_t with = smallest(both);
  const int64_t without = smallest(options_for(0, 0));
  EXPECT_LE(with, without);
  const auto check = [&](PlanOptions options, int64_t budget) {
    SCOPED_TRACE(budget);
    options.budget_bytes = budget;
    const Plan plan = std::get<Plan>(make_plan(lowered, options));
    EXPECT_LE(plan.arena_bytes, budget);
    EXPECT_GE(plan.predicted_s, plan.bound_s * (1 - 1e-9));
    EXPECT_EQ(find_fault(plan, lowered), std::nullopt);
    EXPECT_EQ(read_plan(write_plan(plan, {}, lowered.program), "test", lowered.program), plan);
    const Applied applied = apply(plan, lowered);
    EXPECT_EQ(program::find_problems(applied.lowered.program), std::vector<std::string>{});
    EXPECT_EQ(applied.memory.placement.arena_bytes, plan.arena_bytes);
    EXPECT_TRUE(run_two_steps(step, applied.lowered, applied.memory) == unlimited) << "other bits";
    return count(plan, StepKind::spill);
  };
  for (const int64_t budget : {with, (with + without) / 2, without + without / 20}) check(both, budget);
  EXPECT_GT(check(file_alone, smallest(file_alone)), 0);
}

// %a is wanted at both ends of the program and takes long to make.
constexpr const char* kProgram = R"(
  input %x: f32[32,32]
  %a = matmul(%x, %x)
  %b = matmul(%a, %a)
  %c = matmul(%b, %b)
  %d = matmul(%c, %c)
  %e = mul(%d, %a)
  output %e
)";

class SpillPlan : public testing::Test {
 protected:
  Plan plan_at(double bytes_per_s) const {
    PlanOptions options = options_for(3 * 4096 + lowered_.scratch_bytes()[1], bytes_per_s);
    options.op_seconds = seconds_;
    return std::get<Plan>(make_plan(lowered_, options));
  }
  void expect_fault(const Plan& plan, std::string_view part) const {
    const auto fault = find_fault(plan, lowered_);
    ASSERT_TRUE(fault.has_value());
    EXPECT_NE(fault->find(part), std::string::npos) << *fault;
  }
  static Step& step_of(Plan& plan, StepKind kind) {
    return *std::find_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) { return step.kind == kind; });
  }
  static int32_t place_of(Plan& plan, StepKind kind) {
    return static_cast<int32_t>(&step_of(plan, kind) - plan.steps.data());
  }

  const Lowered lowered_ = kernels::prepare(program::parse_program(kProgram), on_test_device(1));
  const std::vector<double> seconds_ = {10, 10, 10, 10, 1};
};

TEST_F(SpillPlan, SpillsWhereTheDiskIsFasterAndTellsWhatItCosts) {
  const Plan fast = plan_at(4096);
  EXPECT_EQ(count(fast, StepKind::spill), 1);
  EXPECT_EQ(count(fast, StepKind::recompute), 0);
  EXPECT_EQ(fast.predicted_s, 42);  // it goes while %b is made; that it comes back takes a second, with nothing beside
  ASSERT_EQ(fast.measures.size(), 1u);
  EXPECT_EQ(fast.measures[0], (Measure{"spill", "%a", 1, 4096, 1}));
  EXPECT_EQ(fast.file_bytes, 4096);
  const Plan slow = plan_at(4096 / 50.0);
  EXPECT_EQ(count(slow, StepKind::spill), 0);
  EXPECT_EQ(slow.predicted_s, 51);
}

// While %c is made there is room for one result more: %a may take that long to go. There is none beside %d.
TEST_F(SpillPlan, OverlapsCopiesWithStepsWhereThereIsRoom) {
  const Plan plan = plan_at(4096 / 5.0);
  EXPECT_EQ(plan.predicted_s, 46);
  EXPECT_EQ(plan.measures[0].cost_s, 5);
}

TEST_F(SpillPlan, IsHeldToWhatACopyMeans) {
  const Plan plan = plan_at(4096);
  ASSERT_EQ(find_fault(plan, lowered_), std::nullopt);
  const auto changed = [&](const auto& change) {
    Plan other = plan;
    change(other);
    return other;
  };
  expect_fault(changed([](Plan& p) { p.steps.erase(p.steps.begin() + place_of(p, StepKind::spill)); }),
               "it does not lie there in the file");
  expect_fault(changed([](Plan& p) { p.steps.erase(p.steps.begin() + place_of(p, StepKind::fetch)); }),
               "mul %e reads %a, and something was written over it");
  expect_fault(changed([](Plan& p) { step_of(p, StepKind::spill).finish_before = place_of(p, StepKind::fetch); }),
               "writes where the spill of %a is not done");
  expect_fault(changed([](Plan& p) { step_of(p, StepKind::fetch).finish_before += 1; }),
               "reads %a, and something was written over it");
  expect_fault(changed([](Plan& p) { step_of(p, StepKind::spill).finish_before = 0; }), "expected one after it");
  expect_fault(changed([](Plan& p) { step_of(p, StepKind::spill).finish_before = 100; }), "expected one after it");
  expect_fault(changed([](Plan& p) { step_of(p, StepKind::fetch).file_offset = 64; }), "do not lie in the file");
  expect_fault(changed([](Plan& p) { step_of(p, StepKind::fetch).writes[0].offset = p.resident[0].offset; }),
               "%x comes in and stays, and something was written over it");
  expect_fault(changed([](Plan& p) { p.file_bytes += 64; }), "the plan reaches up to 4096");
  expect_fault(changed([](Plan& p) { step_of(p, StepKind::spill).copied = p.resident[0].owner; }),
               "no result with memory of its own");
  expect_fault(changed([&](Plan& p) {  // a second result to the same place in the file
                 Step other = step_of(p, StepKind::spill);
                 other.copied = lowered_.program.find("b");
                 const int32_t place = place_of(p, StepKind::spill) + 2;
                 other.finish_before = place + 1;
                 for (Step& step : p.steps) step.finish_before += step.finish_before >= place ? 1 : 0;
                 p.steps.insert(p.steps.begin() + place, other);
               }),
               "of the file");
}

TEST_F(SpillPlan, NeedsAFileToRun) {
  kernels::use_spill_file(nullptr);
  const Applied applied = apply(plan_at(4096), lowered_);
  const auto pages = device::find_device(applied.lowered.device).pages(applied.memory.placement.arena_bytes);
  Arena arena(*pages, applied.memory.placement.arena_bytes, {INT64_MAX, "test"});
  EXPECT_THROW(run::Executor(applied.lowered, applied.memory, arena), UnsupportedError);
}

}  // namespace
}  // namespace plimsoll::plan

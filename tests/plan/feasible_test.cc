// What fits does not depend on what ops cost: the same program, whatever was measured, has the same smallest budget,
// and that budget is then accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "plimsoll/base/error.h"
#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/plan/step_oracle.h"
#include "tests/memory/sanitized.h"
#include "tests/plan/small_steps.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

constexpr int64_t kBatch = 4;
const int kCaches = kSanitized ? 1 : 3;

// Between a microsecond and a second, the same for the same op of a program.
Costs random_costs(const Lowered& lowered, unsigned seed) {
  Costs costs;
  std::mt19937 random(seed);
  for (const kernels::LoweredOp& op : lowered.ops) {
    const double seconds = std::pow(10.0, -static_cast<double>(random() % 600) / 100);
    costs.seconds.push_back(op.kernel.bind ? seconds : 0);
    costs.measured_s += costs.seconds.back();
  }
  return costs;
}

// Of a real size: of small ones one op alone sets it. Nothing runs.
TEST(Feasible, SmallestBudgetIsTheSameWhateverWasMeasured) {
  const models::ModelInfo& model = models::find_model("mobilenet_v2");
  const Lowered lowered = kernels::prepare(models::build_step(model, {.sizes = {{"batch", 4}}}), {.threads = 1});
  const auto refusal_with = [&](const std::vector<double>& seconds) {
    return std::get<Refusal>(make_plan(lowered, {.budget_bytes = 1, .op_seconds = seconds, .work_limit = 1}));
  };
  const int64_t smallest = refusal_with({}).smallest_bytes;
  for (unsigned seed = 1; seed <= (kSanitized ? 1U : 2U); ++seed) {
    const std::vector<double> seconds = random_costs(lowered, seed).seconds;
    EXPECT_EQ(refusal_with(seconds).smallest_bytes, smallest);
    const PlanOptions options{.budget_bytes = smallest, .op_seconds = seconds, .work_limit = 1};
    EXPECT_TRUE(std::holds_alternative<Plan>(make_plan(lowered, options)));
  }
}

class FeasibleStep : public testing::TestWithParam<const char*> {
 protected:
  FeasibleStep() {
    const models::ModelInfo& model = models::find_model(GetParam());
    if (model.usual.contains("sequence")) asked_.sizes["sequence"] = 5;
    try {
      micro_batches_ = models::build_micro_batch_step(model, asked_);
    } catch (const UnsupportedError&) {  // taken whole
    }
  }

  StepForms forms(unsigned seed) const {
    const models::ModelInfo& model = models::find_model(GetParam());
    const auto formed = [&model, this](const program::StepForm& form) {
      models::StepOptions asked = asked_;
      asked.form = form;
      return kernels::prepare(models::build_step(model, asked), {.threads = 1});
    };
    StepForms forms{kBatch, [formed] { return formed({}); }};
    forms.formed = formed;
    forms.places = models::find_chunk_places(model, asked_);
    if (micro_batches_) {
      forms.micro_batch = [this](int64_t size) {
        return kernels::prepare(program::bind(micro_batches_->split.micro_batch, {{"batch", size}}), {.threads = 1});
      };
      forms.update = [this] { return kernels::prepare(micro_batches_->split.update, {.threads = 1}); };
    }
    if (seed > 0) forms.costs = [seed](const Lowered& lowered) { return random_costs(lowered, seed); };
    return forms;
  }

  static PlanOptions options_for(int64_t budget) { return {.budget_bytes = budget, .work_limit = 5'000}; }

  models::StepOptions asked_ = {.sizes = {{"batch", kBatch}}, .size = models::Size::small};
  std::optional<models::MicroBatchStep> micro_batches_;
};

std::string test_name(const testing::TestParamInfo<const char*>& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Searches end by counts: under a sanitizer each takes twenty times as long.
std::vector<const char*> models_to_fit() {
  if (kSanitized) return {"mobilenet_v2"};
  return {"mobilenet_v2", "gpt2-nano", "lenet"};
}
INSTANTIATE_TEST_SUITE_P(Models, FeasibleStep, testing::ValuesIn(models_to_fit()), test_name);

TEST_P(FeasibleStep, BudgetsAreTheSameWhateverTheCostCacheHolds) {
  const auto refused = plan_step(forms(0), options_for(1));
  const int64_t smallest = std::get<Refusal>(refused).smallest_bytes;
  for (int seed = 1; seed <= kCaches; ++seed) {
    SCOPED_TRACE(seed);
    const StepForms now = forms(static_cast<unsigned>(seed));
    EXPECT_EQ(std::get<Refusal>(plan_step(now, options_for(1))).smallest_bytes, smallest);
    const auto made = plan_step(now, options_for(smallest));
    ASSERT_TRUE(std::holds_alternative<StepPlan>(made));
    EXPECT_LE(std::get<StepPlan>(made).arena_bytes, smallest);
    EXPECT_EQ(find_fault(std::get<StepPlan>(made), kBatch), std::nullopt);
  }
}

// From the smallest budget on all are accepted, and a page less is not: also where steps take something, too, so that a
// plan that recomputes less may take less with a larger arena.
TEST_P(FeasibleStep, IsAcceptedFromTheSmallestBudgetOnAndNotBelow) {
  constexpr int64_t kPage = 4096;
  for (const int64_t step_bytes : {0, 1000, 16 << 10}) {
    SCOPED_TRACE(step_bytes);
    PlanOptions options = options_for(1);
    options.step_bytes = step_bytes;
    const int64_t smallest = std::get<Refusal>(plan_step(forms(0), options)).smallest_bytes;
    EXPECT_EQ(smallest % kPage, 0);
    options.budget_bytes = smallest - kPage;
    EXPECT_TRUE(std::holds_alternative<Refusal>(plan_step(forms(1), options)));
    for (const int64_t more : {int64_t{0}, int64_t{64}, kPage, smallest / 50, smallest / 7}) {
      SCOPED_TRACE(more);
      options.budget_bytes = smallest + more;
      const auto made = plan_step(forms(1), options);
      ASSERT_TRUE(std::holds_alternative<StepPlan>(made));
      const auto& step = std::get<StepPlan>(made);
      EXPECT_LE(step.arena_bytes + step.steps() * step_bytes, options.budget_bytes);
      EXPECT_EQ(find_fault(step, kBatch), std::nullopt);
    }
  }
}

// Clocks of machines that are so busy that hours pass between two looks, and so fast that no time does.
Deadline::Clock::time_point hours_later() {
  static Deadline::Clock::time_point now = {};
  return now += std::chrono::hours(1);
}
Deadline::Clock::time_point at_once() { return {}; }

TEST_P(FeasibleStep, PlansDoNotDependOnTheClock) {
  const auto produced_by = [&](Deadline::Now now, int64_t budget) {
    PlanOptions options = options_for(budget);
    options.deadline.now = now;
    return plan_step(forms(0), options);
  };
  const auto slow = std::get<Refusal>(produced_by(hours_later, 1));
  const auto fast = std::get<Refusal>(produced_by(at_once, 1));
  EXPECT_EQ(slow.smallest_bytes, fast.smallest_bytes);
  EXPECT_FALSE(slow.cut_short);
  for (const int64_t budget : {slow.smallest_bytes, slow.smallest_bytes * 5 / 4}) {
    const auto one = std::get<StepPlan>(produced_by(hours_later, budget));
    const auto other = std::get<StepPlan>(produced_by(at_once, budget));
    ASSERT_EQ(one.programs.size(), other.programs.size());
    for (size_t i = 0; i < one.programs.size(); ++i) EXPECT_EQ(one.programs[i].plan, other.programs[i].plan);
    EXPECT_FALSE(one.is_cut_short());
  }
}

TEST_P(FeasibleStep, SaysThatTheDeadlineCutItShort) {
  PlanOptions options = options_for(1);
  options.deadline = {at_once() + std::chrono::hours(10), at_once};
  const auto in_time = std::get<Refusal>(plan_step(forms(0), options));
  EXPECT_FALSE(in_time.cut_short);
  options.deadline = {hours_later() + std::chrono::hours(10), hours_later};
  const auto late = std::get<Refusal>(plan_step(forms(0), options));
  EXPECT_TRUE(late.cut_short);
  EXPECT_GE(late.smallest_bytes, in_time.smallest_bytes);
}

TEST(Feasible, StepsAreCounted) {
  if (kSanitized) GTEST_SKIP() << "it takes minutes under a sanitizer";
  const models::ModelInfo& model = models::find_model("resnet18");
  const Lowered lowered = kernels::prepare(models::build_step(model, {.sizes = {{"batch", 1}}}), {.threads = 1});
  PlanOptions options{.budget_bytes = 1, .work_limit = 1};
  const auto without = std::get<Refusal>(make_plan(lowered, options));
  options.step_bytes = 64 << 10;
  const auto with = std::get<Refusal>(make_plan(lowered, options));
  EXPECT_LT(with.smallest_steps, without.smallest_steps);
  EXPECT_LE(with.smallest_bytes, without.smallest_bytes + without.smallest_steps * options.step_bytes);
  EXPECT_GE(with.smallest_bytes - with.smallest_steps * options.step_bytes, without.smallest_bytes);
  EXPECT_GE(with.smallest_bytes, with.bound_bytes);
  options.budget_bytes = with.smallest_bytes;
  const Plan plan = std::get<Plan>(make_plan(lowered, options));
  EXPECT_LE(plan.arena_bytes + static_cast<int64_t>(plan.steps.size()) * options.step_bytes, with.smallest_bytes);
}

TEST_P(FeasibleStep, PlansCostNothingOrMore) {
  StepForms forms = this->forms(0);
  const auto whole = static_cast<double>(forms.whole().ops.size());
  // The whole batch is thought to take ages, micro-batches of it nothing.
  forms.costs = [whole](const Lowered& lowered) {
    Costs costs = costs_of(lowered, {});
    for (double& seconds : costs.seconds) seconds *= static_cast<double>(lowered.ops.size()) == whole ? 1e4 : 1;
    return costs;
  };
  const int64_t smallest = std::get<Refusal>(plan_step(forms, options_for(1))).smallest_bytes;
  const int64_t most = plan_memory(forms.whole()).placement.arena_bytes;
  for (const int64_t budget : {smallest, (smallest + most) / 2}) {
    const auto made = plan_step(forms, options_for(budget));
    for (const Measure& measure : std::get<StepPlan>(made).measures()) {
      EXPECT_GE(measure.cost_s, 0) << measure.kind << " " << measure.what;
    }
  }
}

}  // namespace
}  // namespace plimsoll::plan

// Any budget, the same training: gradients under budgets between the smallest and plenty against those without one.
#include <gtest/gtest.h>

#include <random>

#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/plan/step_oracle.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/micro_batch_trainer.h"
#include "tests/memory/sanitized.h"
#include "tests/train/outcome.h"

namespace plimsoll {
namespace {

// Threads wait for each other a long time on a busy machine.
size_t budgets_on(int threads) { return kSanitized ? (threads == 1 ? 4 : 2) : threads == 1 ? 20 : 6; }

class RandomBudgets : public testing::TestWithParam<Case> {
 protected:
  RandomBudgets()
      : cut_(models::build_micro_batch_step(models::find_model(GetParam().model), options_of(GetParam()))) {}

  plan::StepForms forms() const {
    const kernels::DeviceOptions device{.threads = GetParam().threads};
    const auto whole = [device] {
      return kernels::prepare(models::build_step(models::find_model(GetParam().model), options_of(GetParam())), device);
    };
    const auto micro_batch = [device, this](int64_t size) {
      return kernels::prepare(program::bind(cut_.split.micro_batch, {{"batch", size}}), device);
    };
    const auto formed = [device](const program::StepForm& form) {
      models::StepOptions options = options_of(GetParam());
      options.form = form;
      return kernels::prepare(models::build_step(models::find_model(GetParam().model), options), device);
    };
    return {GetParam().batch, whole,
            micro_batch,      [device, this] { return kernels::prepare(cut_.split.update, device); },
            formed,           models::find_chunk_places(models::find_model(GetParam().model), options_of(GetParam()))};
  }

  static plan::PlanOptions options_for(int64_t budget) { return {.budget_bytes = budget, .work_limit = 20'000}; }

  Outcome train(plan::StepPlan step) const {
    const auto session = train::bind_plan(step, machine_budget());
    start_values(session->executor(), cut_.inits, cut_.state_inits);
    if (!step.in_micro_batches()) {
      train::Trainer trainer(session->executor(), trainer_options(GetParam()));
      return outcome_of(trainer, session->executor());
    }
    train::MicroBatchTrainer trainer(train::micro_batches_of(*session, step.sizes, cut_.split),
                                     trainer_options(GetParam()));
    return outcome_of(trainer, session->executor());
  }

  models::MicroBatchStep cut_;
};

INSTANTIATE_TEST_SUITE_P(Models, RandomBudgets,
                         testing::Values(Case{"gpt2-nano", 6, true, {}, 1}, Case{"gpt2-nano", 6, true, 0.5, 2},
                                         Case{"vgg16", 4, false, {}, 1}, Case{"lenet", 9, false, {}, 2}));

TEST_P(RandomBudgets, GiveTheGradientsOfNone) {
  const Outcome unlimited = train_whole(GetParam());
  const int64_t smallest = std::get<plan::Refusal>(plan::plan_step(forms(), options_for(0))).smallest_bytes;
  const int64_t most = plan::plan_memory(forms().whole()).placement.arena_bytes;
  std::mt19937 random(11);
  std::vector<int64_t> budgets = {smallest};
  while (budgets.size() < budgets_on(GetParam().threads))
    budgets.push_back(smallest + static_cast<int64_t>(random() % (most - smallest + 1)));
  int cut = 0;
  for (const int64_t budget : budgets) {
    SCOPED_TRACE(budget);
    auto made = plan::plan_step(forms(), options_for(budget));
    ASSERT_TRUE(std::holds_alternative<plan::StepPlan>(made));
    auto& step = std::get<plan::StepPlan>(made);
    EXPECT_EQ(plan::find_fault(step, GetParam().batch), std::nullopt);
    const bool is_cut = step.in_micro_batches() || step.form.chunks > 1;
    cut += is_cut ? 1 : 0;
    const Outcome outcome = train(std::move(step));
    if (is_cut) {
      EXPECT_LT(largest_difference(unlimited, outcome), 1e-6);
    } else {
      EXPECT_EQ(outcome.gradients, unlimited.gradients);
      EXPECT_EQ(outcome.losses, unlimited.losses);
    }
  }
  EXPECT_GT(cut, 0);
  EXPECT_TRUE(std::holds_alternative<plan::Refusal>(plan::plan_step(forms(), options_for(smallest - 64))));
}

}  // namespace
}  // namespace plimsoll

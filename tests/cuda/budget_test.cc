// Budgets of a card: the whole process stays within what was given, steps move no memory, and what does not fit is
// refused before anything is mapped.
#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/device.h"
#include "plimsoll/models/step.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/training.h"
#include "tests/cuda/card.h"

namespace plimsoll {
namespace {

int64_t free_bytes() { return cuda::Runtime::current().free_bytes(); }

train::TrainingOptions options_of(const std::string& budget) {
  train::TrainingOptions options;
  options.batch = 64;
  options.budget = budget;
  options.precision = DType::bf16;
  options.device = "cuda";
  options.measure = false;
  return options;
}

// What the process has of the card, its context included.
int64_t process_bytes() {
  const cuda::Runtime& runtime = cuda::Runtime::current();
  return runtime.overhead_bytes() + runtime.grown_bytes() + runtime.page_bytes();
}

TEST(CudaBudget, HoldsForTheWholeProcess) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  for (const int64_t budget : {3 * kGiB, 2 * kGiB}) {
    train::Training training(models::find_model("resnet18"), options_of(std::to_string(budget)));
    for (int i = 0; i < 3; ++i) training.step();
    EXPECT_LE(process_bytes(), budget);
    EXPECT_LE(training.plan().predicted_peak_bytes, budget);
  }
}

TEST(CudaBudget, IsRefusedAPageBelowTheSmallest) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  const models::ModelInfo& model = models::find_model("resnet18");
  int64_t smallest = 0;
  try {
    const train::Training training(model, options_of("600MiB"));
    FAIL() << "fits in less than its context and code";
  } catch (const train::DoesNotFit& error) {
    smallest = error.smallest_budget_bytes();
  }
  const int64_t before = free_bytes();
  EXPECT_THROW(train::Training(model, options_of(std::to_string(smallest - 2 * kMiB))), train::DoesNotFit);
  EXPECT_EQ(free_bytes(), before) << "something was mapped for a step that does not fit";
  train::Training training(model, options_of(std::to_string(smallest)));
  training.step();
  EXPECT_LE(process_bytes(), smallest);
}

TEST(CudaBudget, OfASessionIsLookedAtBeforePagesAre) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  const models::Step step = models::build_whole_step(models::find_model("lenet"), {});
  run::Planned planned = run::plan_as_it_is(step.program, {.device = "cuda", .threads = 1});
  const int64_t before = free_bytes();
  const Budget budget{planned.arena_bytes() - 1, "test"};
  std::vector<run::Planned> programs;
  programs.push_back(std::move(planned));
  EXPECT_THROW(run::Session(std::move(programs), budget), ResourceExhausted);
  EXPECT_EQ(free_bytes(), before);
}

}  // namespace
}  // namespace plimsoll

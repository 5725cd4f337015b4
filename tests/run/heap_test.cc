// Planned steps take nothing from the heap, whatever computes them: counted at malloc, on all threads.
#include <gtest/gtest.h>

#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/run/session.h"
#include "tests/run/allocation_count.h"
#include "tests/run/zoo_names.h"

namespace plimsoll {
namespace {

class HeapInAStep : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    if (!counts_allocations()) GTEST_SKIP() << "sanitizers have a heap of their own";
    if (!kernels::dnnl_prefers_blocks()) GTEST_SKIP() << "without AVX-512 oneDNN's products take buffers on the heap";
  }

  const models::ModelInfo& model() const { return models::find_model(GetParam()); }

  models::StepOptions options(DType precision = DType::f32) const {
    models::StepOptions options = {.precision = precision, .sizes = {{"batch", 3}}, .size = models::Size::small};
    if (model().usual.contains("sequence")) options.sizes["sequence"] = 5;
    options.train.optimizer = program::Optimizer::adam;
    return options;
  }

  // Of all steps after the first.
  static void expect_none(run::Session& session) {
    for (size_t i = 0; i < session.executors(); ++i) {
      run::Executor& executor = session.executor(i);
      executor.step();
      for (int step = 0; step < 2; ++step) EXPECT_EQ(allocations_of_a_step(executor), 0) << "program " << i;
    }
  }

  const kernels::DeviceOptions device_ = {.threads = std::min(kernels::thread_count({}), 2)};
};

INSTANTIATE_TEST_SUITE_P(All, HeapInAStep, testing::ValuesIn(zoo_names()), zoo_test_name);

class HeapInATightStep : public HeapInAStep {};
INSTANTIATE_TEST_SUITE_P(Some, HeapInATightStep,
                         testing::Values("p14", "resnet18", "mobilenet_v2", "unet", "gpt2-nano"), zoo_test_name);

TEST_P(HeapInAStep, IsNotTakenInAnyPrecision) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(name(precision));
    run::Session session(models::build_step(model(), options(precision)), device_, machine_budget());
    expect_none(session);
  }
}

TEST_P(HeapInATightStep, IsNotTakenToComputeResultsAgain) {
  const kernels::Lowered lowered = kernels::prepare(models::build_step(model(), options()), device_);
  plan::PlanOptions tight = {.budget_bytes = 0, .work_limit = 1000};
  tight.budget_bytes = std::get<plan::Refusal>(plan::make_plan(lowered, tight)).smallest_bytes;
  plan::Applied applied = plan::apply(std::get<plan::Plan>(plan::make_plan(lowered, tight)), lowered);
  std::vector<run::Planned> planned;
  planned.push_back({std::move(applied.lowered), std::move(applied.memory)});
  run::Session session(std::move(planned), machine_budget());
  expect_none(session);
}

TEST_P(HeapInATightStep, IsNotTakenByMicroBatches) {
  models::StepOptions in_micro_batches = options();
  in_micro_batches.through_batch_norm = true;
  const program::SplitStep split = models::build_micro_batch_step(model(), in_micro_batches).split;
  std::vector<run::Planned> planned;
  planned.push_back(run::plan_as_it_is(program::bind(split.micro_batch, {{"batch", 2}}), device_));
  planned.push_back(run::plan_as_it_is(split.update, device_));
  run::Session session(std::move(planned), machine_budget());
  expect_none(session);
}

TEST_P(HeapInAStep, IsNotTakenInInference) {
  for (const DType precision : {DType::f32, DType::i8}) {
    SCOPED_TRACE(name(precision));
    models::StepOptions inference = options(precision);
    inference.training = false;
    run::Session session(models::build_step(model(), inference), device_, machine_budget());
    expect_none(session);
  }
}

}  // namespace
}  // namespace plimsoll

// Whole steps on a card: as on the CPU, in the memory that was predicted, with the same bits twice.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/device.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/trainer.h"
#include "tests/cuda/card.h"
#include "tests/kernels/against_reference.h"
#include "tests/plan/run_two_steps.h"
#include "tests/run/zoo_names.h"

namespace plimsoll {
namespace {

constexpr int kSteps = 3;

models::Step small_step(std::string_view name, DType precision) {
  const models::ModelInfo& model = models::find_model(name);
  models::StepOptions options = {
      .training = true, .precision = precision, .sizes = {{"batch", 3}}, .size = models::Size::small};
  if (model.usual.contains("sequence")) options.sizes["sequence"] = 5;
  return models::build_whole_step(model, options);
}

void start(run::Executor& executor, const models::Step& step) {
  uint64_t stream = 0;
  const auto draw = [&](const std::vector<program::Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i) {
      std::vector<float> floats(static_cast<size_t>(step.program[values[i]].type.shape.elements().constant()));
      models::draw(inits[i], floats, 1, stream++);
      run::write_floats(executor, values[i], floats);
    }
  };
  draw(step.program.parameters, step.inits);
  draw(step.program.state, step.state_inits);
}

struct Trained {
  std::vector<float> losses;
  std::vector<std::vector<float>> parameters;
  int64_t arena_bytes = 0;
};

Trained train(const models::Step& step, const std::string& device) {
  run::Session session(step.program, {.device = device, .threads = 1}, device::find_device(device).budget());
  run::Executor& executor = session.executor();
  start(executor, step);
  Trained trained;
  trained.arena_bytes = session.arena_bytes();
  train::Trainer trainer(executor, {});
  for (int i = 0; i < kSteps; ++i) trained.losses.push_back(trainer.step());
  for (const program::Value value : step.program.parameters) {
    trained.parameters.push_back(run::read_floats(executor, value));
  }
  return trained;
}

class CudaZoo : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(All, CudaZoo, testing::ValuesIn(zoo_names()), zoo_test_name);

TEST_P(CudaZoo, TrainsAsTheCpuDoes) {
  const bool paper = cuda::CompileOnly::architecture() != nullptr;
  if (!has_card() && !paper) GTEST_SKIP() << "there is no card here";
  for (const auto& [precision, tolerance] : {std::pair{DType::f32, 2e-4}, std::pair{DType::bf16, 3e-2}}) {
    const models::Step step = small_step(GetParam(), precision);
    const Trained there = train(step, "cuda");
    if (paper) continue;
    const Trained here = train(step, "cpu");
    for (int i = 0; i < kSteps; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_NEAR(there.losses[at], here.losses[at], tolerance * std::max(1.0F, std::abs(here.losses[at])))
          << name(precision) << " step " << i;
    }
    const Trained again = train(step, "cuda");
    EXPECT_EQ(there.losses, again.losses) << name(precision);
    EXPECT_EQ(there.parameters, again.parameters) << name(precision) << ": other bits in a second run";
  }
}

struct Way {
  const char* name;
  bool recompute;
  plan::SpillOptions spill;
};

// The same bits whether results are kept, computed again, or wait in memory of the host. Without a card: that there are
// such plans for one.
TEST(CudaPlans, GiveTheSameBitsUnderEveryBudget) {
  const Way ways[] = {{"recompute", true, {}}, {"spill", false, {.bytes_per_s = 5e10, .least_bytes = 4096}}};
  for (const char* name : {"resnet18", "gpt2-nano"}) {
    models::StepOptions options = {.training = true, .precision = DType::bf16, .sizes = {{"batch", 16}}};
    const models::ModelInfo& model = models::find_model(name);
    if (model.usual.contains("sequence")) options.sizes["sequence"] = 128;
    const models::Step step = models::build_whole_step(model, options);
    const kernels::Lowered lowered =
        kernels::prepare(step.program, {.device = has_card() ? "cuda" : "cuda:h200", .threads = 1});
    const plan::MemoryPlan whole = plan::plan_memory(lowered);
    const auto run = [&](const kernels::Lowered& what, const plan::MemoryPlan& memory) {
      return has_card() ? plan::run_two_steps(step, what, memory) : std::vector<std::byte>{};
    };
    const std::vector<std::byte> expected = run(lowered, whole);
    for (const Way& way : ways) {
      int fitted = 0;
      for (const double share : {0.97, 0.9, 0.75}) {  // the logits of gpt2-nano are nearly all of its peak
        const auto budget = static_cast<int64_t>(static_cast<double>(whole.placement.arena_bytes) * share);
        const auto made = plan::make_plan(lowered, {.budget_bytes = budget,
                                                    .recompute = way.recompute,
                                                    .spill = way.spill,
                                                    .work_limit = 2'000'000,
                                                    .find_smallest = false});
        if (!std::holds_alternative<plan::Plan>(made)) continue;
        ++fitted;
        const plan::Applied applied = plan::apply(std::get<plan::Plan>(made), lowered);
        EXPECT_LE(applied.memory.placement.arena_bytes, budget) << name;
        EXPECT_EQ(run(applied.lowered, applied.memory), expected) << name << " at " << share << " by " << way.name;
      }
      EXPECT_GT(fitted, 0) << name << ": no smaller budget was planned by " << way.name;
    }
  }
}

// Rows that are no whole vectors, by way of scratch where they are, and as they are.
TEST(CudaProducts, AreTheSameByWayOfScratch) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  const program::Program program = with_gradients(
      "input %x: bf16[2048,512]\ninput %w: bf16[19531,512]\ninput %b: bf16[19531]\n%y = linear(%x, %w, %b)\n"
      "output %y\n");
  const program::Arrays<double> values = random_values(program, {});
  const auto fast = outputs_of(program, values, {.device = "cuda", .threads = 1});
  const auto least = outputs_of(program, values, {.device = "cuda", .threads = 1, .least_scratch = true});
  ASSERT_EQ(fast.size(), least.size());
  for (size_t k = 0; k < fast.size(); ++k) {
    double largest = 1;
    double apart = 0;
    for (size_t i = 0; i < fast[k].size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(least[k][i])));
      apart = std::max(apart, static_cast<double>(std::abs(fast[k][i] - least[k][i])));
    }
    EXPECT_LT(apart, 1e-2 * largest) << "output " << k;
  }
}

// Lines of 64 elements, which a whole warpgroup multiplies where a card can; forward and backward.
TEST(CudaAttention, OfLinesThatUnitsTake) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  for (const auto& [q, k, attributes] :
       {std::tuple("2,2,130,64", "2,2,130,64", "causal=true"), std::tuple("1,3,65,64", "1,3,200,64", "scale=0.2"),
        std::tuple("1,2,256,64", "1,2,256,64", "causal=true"), std::tuple("1,2,90,128", "1,2,90,128", "causal=true")}) {
    for (const char* dtype : {"bf16", "f16"}) {
      const std::string text = fmt::format(
          "input %q: {0}[{1}]\ninput %k: {0}[{2}]\ninput %v: {0}[{2}]\n%y = attention(%q, %k, %v) {{{3}}}\n"
          "output %y\n",
          dtype, q, k, attributes);
      SCOPED_TRACE(text);
      expect_agreement(with_gradients(text), {.tolerance = dtype[0] == 'b' ? 2e-2 : 4e-3});
    }
  }
}

// Of f32 with operands of 11 bits: near, and not the same.
TEST(CudaPrecision, Tf32IsNear) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  const models::Step step = small_step("resnet18", DType::f32);
  const Trained exact = train(step, "cuda");
  device::allow_tf32(true);
  const Trained near = train(step, "cuda");
  device::allow_tf32(false);
  EXPECT_NEAR(near.losses[0], exact.losses[0], 1e-3 * std::max(1.0F, std::abs(exact.losses[0])));
  EXPECT_NE(near.parameters, exact.parameters) << "nothing was rounded";
}

// A step that is kept and repeated by the device, and one that is enqueued op by op.
TEST(CudaGraphs, ChangeNoBits) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  const models::Step step = small_step("resnet18", DType::bf16);
  const Trained kept = train(step, "cuda");
  setenv("PLIMSOLL_CUDA_GRAPHS", "0", 1);
  const Trained one_by_one = train(step, "cuda");
  unsetenv("PLIMSOLL_CUDA_GRAPHS");
  EXPECT_EQ(kept.losses, one_by_one.losses);
  EXPECT_EQ(kept.parameters, one_by_one.parameters);
}

TEST(CudaMemory, IsThatOfThePlan) {
  if (!has_card()) GTEST_SKIP() << "there is no card here";
  const models::Step step = small_step("gpt2", DType::bf16);
  train(step, "cuda");  // loads what is loaded once
  const auto free_bytes = [] { return cuda::Runtime::current().free_bytes(); };
  const int64_t before = free_bytes();
  run::Session session(step.program, {.device = "cuda", .threads = 1}, device::find_device("cuda").budget());
  start(session.executor(), step);
  const int64_t taken = before - free_bytes();
  EXPECT_LE(taken - session.arena_bytes(), 4 << 20) << "beside an arena of " << session.arena_bytes();
  train::Trainer trainer(session.executor(), {});
  for (int i = 0; i < 3; ++i) trainer.step();  // one of them is kept by the driver
  const int64_t then = free_bytes();
  for (int i = 0; i < 100; ++i) trainer.step();
  EXPECT_EQ(then, free_bytes()) << "memory moves while steps run";
}

}  // namespace
}  // namespace plimsoll

// A batch in micro-batches against the batch as a whole: same data, same loss, same parameters after the steps.
#include "plimsoll/plan/micro_batches.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "plimsoll/base/error.h"
#include "plimsoll/program/text.h"
#include "plimsoll/train/micro_batch_trainer.h"
#include "tests/train/outcome.h"

namespace plimsoll {
namespace {

using program::Program;
using program::Value;

// A model whose batch is taken in micro-batches of these sizes, at its start.
struct CutModel {
  CutModel(const Case& tested, const std::vector<int64_t>& sizes)
      : step(models::build_micro_batch_step(models::find_model(tested.model), options_of(tested))),
        session(planned(step.split, sizes), machine_budget()),
        trainer(train::micro_batches_of(session, sizes, step.split), trainer_options(tested)) {
    start_values(session.executor(), step.inits, step.state_inits);
  }

  static std::vector<run::Planned> planned(const program::SplitStep& split, const std::vector<int64_t>& sizes) {
    std::vector<run::Planned> programs;
    for (const int64_t size : std::set<int64_t>(sizes.begin(), sizes.end())) {
      programs.push_back(run::plan_as_it_is(program::bind(split.micro_batch, {{"batch", size}}), {}));
    }
    programs.push_back(run::plan_as_it_is(split.update, {}));
    return programs;
  }

  models::MicroBatchStep step;
  run::Session session;
  train::MicroBatchTrainer trainer;
};

Outcome train_in_micro_batches(const Case& tested, const std::vector<int64_t>& sizes) {
  CutModel model(tested, sizes);
  return outcome_of(model.trainer, model.session.executor());
}

std::vector<int64_t> random_sizes(int64_t batch, std::mt19937& random) {
  const int64_t size = std::uniform_int_distribution<int64_t>(1, batch - 1)(random);
  std::vector<int64_t> sizes;
  for (int64_t left = batch; left > 0; left -= size) sizes.push_back(std::min(size, left));
  return sizes;
}

class InMicroBatches : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Models, InMicroBatches,
                         testing::Values(Case{"p11", 7}, Case{"mlp", 16, true}, Case{"lenet", 5, false, 0.1},
                                         Case{"vgg16", 5}, Case{"vit_b_16", 4}, Case{"gpt2-nano", 6, true},
                                         Case{"gpt2-nano", 5, true, 0.5}, Case{"bert_base", 5, true}, Case{"unet", 3}),
                         [](const testing::TestParamInfo<Case>& tested) {
                           std::string name(tested.param.model);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + std::to_string(tested.index);
                         });

TEST_P(InMicroBatches, TrainsAsTheWholeBatch) {
  const Outcome whole = train_whole(GetParam());
  std::mt19937 random(7);
  for (int round = 0; round < 2; ++round) {
    const Outcome micro_batches = train_in_micro_batches(GetParam(), random_sizes(GetParam().batch, random));
    for (int i = 0; i < kSteps; ++i)
      EXPECT_NEAR(micro_batches.losses[i], whole.losses[i], 2e-6 * std::abs(whole.losses[i]));
    EXPECT_LT(largest_difference(whole, micro_batches), 1e-6);
  }
}

TEST(InMicroBatchesOfF16, TrainsAsTheWholeBatch) {
  for (const char* model : {"mlp", "lenet", "gpt2-nano"}) {
    const Case tested{.model = model, .batch = 7, .uneven = true, .precision = DType::f16};
    const Outcome whole = train_whole(tested);
    const Outcome micro_batches = train_in_micro_batches(tested, {3, 3, 1});
    for (int i = 0; i < kSteps; ++i)
      EXPECT_NEAR(micro_batches.losses[i], whole.losses[i], 1e-3 * std::abs(whole.losses[i]));
    EXPECT_LT(largest_difference(whole, micro_batches), 5e-3) << model;
  }
}

// Each micro-batch's gradients are rounded to bf16, whose unit is 2^-8, before they are summed in f32.
TEST(InMicroBatchesOfBf16, TrainsAsTheWholeBatchToRounding) {
  for (const char* model : {"mlp", "lenet", "gpt2-nano"}) {
    const Case tested{.model = model, .batch = 7, .uneven = true, .precision = DType::bf16};
    const Outcome whole = train_whole(tested);
    const Outcome micro_batches = train_in_micro_batches(tested, {3, 3, 1});
    for (int i = 0; i < kSteps; ++i)
      EXPECT_NEAR(micro_batches.losses[i], whole.losses[i], 0x1p-8 * std::abs(whole.losses[i]));
    EXPECT_LT(largest_difference(whole, micro_batches), 0x1p-6) << model;
  }
}

TEST(InMicroBatchesOfF16, AStepIsSkippedWhenTheGradientsOfAMicroBatchOverflow) {
  CutModel model({.model = "mlp", .batch = 5, .precision = DType::f16}, {3, 2});
  run::Executor& executor = model.session.executor();
  const Program& program = executor.program();
  const auto power = executor.data<int64_t>(program.find("optimizer.loss_scale"));
  const auto weights = executor.data<float>(program.parameters[0]);
  const std::vector<float> before(weights.begin(), weights.end());
  power[0] = 20;  // 2^36: above all of f16
  EXPECT_TRUE(std::isfinite(model.trainer.step()));
  EXPECT_TRUE(std::equal(weights.begin(), weights.end(), before.begin()));
  EXPECT_EQ(power[0], 19);
  power[0] = -16;  // 1
  model.trainer.step();
  EXPECT_FALSE(std::equal(weights.begin(), weights.end(), before.begin()));
  EXPECT_TRUE(std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); }));
  EXPECT_EQ(power[0], -16);
}

std::string why_not(const std::string& ops) {
  const Program program = program::parse_program(
      "input %x: f32[batch,3]\ninput %t: f32[batch,3]\nparameter %w: f32[3,3]\n%y = linear(%x, %w)\n" + ops);
  return program::why_no_micro_batches(program, program.outputs[0]).value_or("");
}

TEST(WhyNoMicroBatches, NamesWhatMixesSamples) {
  EXPECT_EQ(why_not("%l = mse_loss(%y, %t)\noutput %l\n"), "");
  EXPECT_EQ(why_not("%s = softmax(%y) {axis=0}\n%l = mse_loss(%s, %t)\noutput %l\n"),
            "softmax %s works along the batch");
  EXPECT_EQ(why_not("%l = mse_loss(%y, %t)\n%m = mul(%l, %l)\noutput %m\n"),
            "the loss is made by mul %m, which is no mean over the samples");
  const models::ModelInfo& resnet = models::find_model("resnet18");
  EXPECT_NO_THROW(models::build_micro_batch_step(resnet, {.size = models::Size::small, .through_batch_norm = true}));
  try {
    models::build_micro_batch_step(resnet, {.size = models::Size::small});
    FAIL() << "not refused";
  } catch (const UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("batch_norm %bn1.batch_norm"), std::string::npos) << error.what();
  }
}

TEST(MicroBatchSizes, AreEvenButForTheLast) {
  EXPECT_EQ(plan::micro_batch_sizes(10, 4), (std::vector<int64_t>{4, 4, 2}));
  EXPECT_EQ(plan::micro_batch_sizes(9, 5), (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(plan::micro_batch_sizes(8, 100), (std::vector<int64_t>{8}));
  EXPECT_EQ(plan::micro_batch_sizes(256, 3).size(), 86u);
  EXPECT_THROW(plan::micro_batch_sizes(0, 1), ArgumentError);
}

TEST(SyntheticBatch, IsTheSameHoweverTheBatchIsCut) {
  const auto read = [](const char* type, int64_t samples, int64_t first) {
    const Program program = program::parse_program(fmt::format("input %x: {}[{},7]\n", type, samples));
    std::vector<std::byte> bytes(static_cast<size_t>(samples * 7) * (std::string_view(type) == "f32" ? 4 : 8));
    train::SyntheticBatch(5, 2).read(program, program.inputs[0], first, bytes);
    return bytes;
  };
  for (const char* type : {"f32", "i64"}) {
    std::vector<std::byte> micro_batches = read(type, 3, 0);
    const std::vector<std::byte> rest = read(type, 6, 3);
    micro_batches.insert(micro_batches.end(), rest.begin(), rest.end());
    EXPECT_EQ(micro_batches, read(type, 9, 0));
  }
}

}  // namespace
}  // namespace plimsoll

// Inference in i8: every model of the zoo runs in the memory that was predicted, and near to f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/quantization.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/synthetic.h"
#include "tests/run/allocation_count.h"
#include "tests/run/zoo_names.h"

namespace plimsoll {
namespace {

models::Step small_step(const models::ModelInfo& model, bool training = false) {
  models::StepOptions options = {.training = training, .sizes = {{"batch", 3}}, .size = models::Size::small};
  if (model.usual.contains("sequence")) options.sizes["sequence"] = 5;
  return models::build_whole_step(model, options);
}

// All weights, however small they are here.
program::QuantizedProgram in_i8(const models::Step& step) {
  return program::quantize_weights(step.program, {.least_bytes = 0, .least_products = 0});
}

using Floats = std::map<std::string, std::vector<float>, std::less<>>;

// Weights as the model starts with, but so large that images keep their size on their way, and without biases, which
// would be most of the results then and hide their errors.
models::Init init_of(const std::string& name, models::Init init) {
  if (name.ends_with("bias")) return models::constant(0);
  if (init.kind == models::Init::Kind::uniform) init.scale *= std::sqrt(6);
  return init;
}

Floats drawn(const models::Step& step) {
  Floats all;
  uint64_t stream = 0;
  const auto draw = [&](const std::vector<program::Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i) {
      const std::string& name = step.program[values[i]].name;
      all[name].resize(static_cast<size_t>(step.program[values[i]].type.shape.elements().constant()));
      models::draw(init_of(name, inits[i]), all[name], 1, stream++);
    }
  };
  draw(step.program.parameters, step.inits);
  draw(step.program.state, step.state_inits);
  return all;
}

void load(run::Executor& executor, const Floats& floats, const std::vector<program::QuantizedParameter>& quantized) {
  const program::Program& program = executor.program();
  for (const auto* values : {&program.parameters, &program.state}) {
    for (const program::Value value : *values) {
      const auto found = floats.find(program[value].name);
      if (found != floats.end() && is_floating(program[value].type.dtype)) {
        run::write_floats(executor, value, found->second);
      }
    }
  }
  for (const auto& [weights, scales] : quantized) {
    const std::vector<float>& from = floats.at(program[weights].name);
    const std::span<int8_t> bytes = executor.data<int8_t>(weights);
    const std::span<float> of_rows = executor.data<float>(scales);
    const size_t columns = bytes.size() / of_rows.size();
    for (size_t row = 0; row < of_rows.size(); ++row) {
      of_rows[row] =
          program::quantize_row(std::span(from).subspan(row * columns, columns), bytes.subspan(row * columns, columns));
    }
  }
}

std::vector<float> result(const program::Program& program, const Floats& floats,
                          const std::vector<program::QuantizedParameter>& quantized = {}) {
  run::Session session(program, {.threads = 1}, machine_budget());
  run::Executor& executor = session.executor();
  EXPECT_EQ(plan::estimate(kernels::prepare(program, {.threads = 1})).peak_bytes, executor.arena_bytes());
  load(executor, floats, quantized);
  train::fill_inputs(executor, 1);
  executor.step();
  return run::read_floats(executor, program.outputs[0]);
}

double relative_error(const std::vector<float>& found, const std::vector<float>& right) {
  double difference = 0;
  double length = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    difference += std::pow(double{found[i]} - double{right[i]}, 2);
    length += std::pow(double{right[i]}, 2);
  }
  return std::sqrt(difference / length);
}

class ZooI8 : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(All, ZooI8, testing::ValuesIn(zoo_names()), zoo_test_name);

TEST_P(ZooI8, IsNearF32InTheMemoryThatWasPredicted) {
  const models::Step step = small_step(models::find_model(GetParam()));
  const Floats floats = drawn(step);
  const program::QuantizedProgram i8 = in_i8(step);
  EXPECT_FALSE(i8.parameters.empty());
  const std::vector<float> found = result(i8.program, floats, i8.parameters);
  const double error = relative_error(found, result(step.program, floats));
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_LT(error, 0.06);
  EXPECT_GT(error, 0);  // or nothing was rounded
}

// With the scales that a step in i8 has, and the rest of the state as it was.
TEST(I8, StepsKeepTheirParametersAndAddScales) {
  const models::ModelInfo& model = models::find_model("gpt2-nano");
  const models::Step f32 = models::build_whole_step(model, {.training = false});
  const models::Step i8 = models::build_whole_step(model, {.training = false, .precision = DType::i8});
  EXPECT_EQ(i8.program.parameters.size(), f32.program.parameters.size());
  EXPECT_EQ(i8.inits, f32.inits);
  EXPECT_EQ(i8.program.state.size(), f32.program.state.size() + i8.quantized.size());
  EXPECT_EQ(i8.program[i8.program.find("wte.weight")].type.text(), "i8[50257,48]");
  EXPECT_EQ(i8.program[i8.program.find("wpe.weight")].type.text(), "f32[1024,48]");  // read as it is, too
}

TEST(I8, IsForInferenceAlone) {
  const models::ModelInfo& model = models::find_model("mlp");
  for (const auto& build : {std::function([&] { models::build_whole_step(model, {.precision = DType::i8}); }),
                            std::function([&] { models::build_micro_batch_step(model, {.precision = DType::i8}); })}) {
    try {
      build();
      FAIL() << "no error";
    } catch (const ArgumentError& error) {
      EXPECT_STREQ(error.what(),
                   "the precision is i8, which is for inference alone; train in f32, bf16 or f16, and infer in i8 "
                   "afterwards");
    }
  }
}

size_t answer(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Made-up weights say little of how well bytes do: here are some that have learnt something.
TEST(I8, AModelThatWasTrainedGivesTheSameAnswers) {
  const models::ModelInfo& model = models::find_model("lenet");
  const models::StepOptions options = {.sizes = {{"batch", 16}}};
  const models::Step training = models::build_whole_step(model, options);
  run::Session session(training.program, {.threads = 1}, machine_budget());
  run::Executor& executor = session.executor();
  load(executor, drawn(training), {});
  train::fill_inputs(executor, 1);
  executor.data<float>(training.program.find("optimizer.rate"))[0] = 1e-3F;
  for (int i = 0; i < 60; ++i) executor.step();
  Floats learnt;
  for (const program::Value value : training.program.parameters) {
    learnt[training.program[value].name] = run::read_floats(executor, value);
  }
  models::StepOptions inference = options;
  inference.training = false;
  const models::Step step = models::build_whole_step(model, inference);
  const program::QuantizedProgram i8 = in_i8(step);
  const std::vector<float> wide = result(step.program, learnt);
  const std::vector<float> narrow = result(i8.program, learnt, i8.parameters);
  EXPECT_LT(relative_error(narrow, wide), 0.05);
  const auto target = executor.data<int64_t>(training.program.find("target"));
  for (size_t n = 0; n < 16; ++n) {
    ASSERT_EQ(answer(std::span(wide).subspan(n * 10, 10)), static_cast<size_t>(target[n])) << "it has learnt nothing";
    EXPECT_EQ(answer(std::span(narrow).subspan(n * 10, 10)), static_cast<size_t>(target[n]));
  }
}

TEST(I8, AllocatesNothingInAStep) {
  const program::Program program = program::parse_program(
      "input %w: i8[40,1000]\ninput %s: f32[40]\ninput %i: i64[17]\n%a = embedding_i8(%w, %i, %s)\n"
      "%q, %r = quantize_rows(%a)\n%t, %u = quantize(%a) {dtype=u8}\noutput %q\noutput %t\n");
  run::Session session(program, {}, machine_budget());
  session.executor().step();
  EXPECT_EQ(allocations_of_a_step(session.executor()), 0);
}

}  // namespace
}  // namespace plimsoll

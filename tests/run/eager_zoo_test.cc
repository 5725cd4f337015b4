// Every model of the zoo, eagerly and by the executor: the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/run/eager/interpret.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/synthetic.h"
#include "tests/run/eager_fixture.h"
#include "tests/run/zoo_names.h"

namespace plimsoll::eager {
namespace {

using models::ModelInfo;
using program::Program;
using program::Value;

models::Step small_step(const ModelInfo& model) {
  models::StepOptions options = {.sizes = {{"batch", 3}}, .size = models::Size::small};
  if (model.usual.contains("sequence")) options.sizes["sequence"] = 5;
  return models::build_whole_step(model, options);
}

void start(run::Executor& executor, const models::Step& step) {
  train::fill_inputs(executor, 1);
  executor.data<float>(step.program.find("optimizer.rate"))[0] = 0.01F;
  uint64_t stream = 0;
  const auto draw = [&](const std::vector<Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i) {
      models::draw(inits[i], executor.data<float>(values[i]), 1, stream++);
    }
  };
  draw(step.program.parameters, step.inits);
  draw(step.program.state, step.state_inits);
}

std::span<std::byte> bytes_of(run::Executor& executor, Value value) {
  const auto size = executor.program()[value].type.spec().bytes();
  std::byte* data = nullptr;
  if (element_bytes(executor.program()[value].type.dtype) == 8) {
    data = reinterpret_cast<std::byte*>(executor.data<int64_t>(value).data());
  } else {
    data = reinterpret_cast<std::byte*>(executor.data<float>(value).data());
  }
  return {data, static_cast<size_t>(size)};
}

std::vector<Value> kept_values(const Program& program) {
  std::vector<Value> values = program.parameters;
  values.insert(values.end(), program.state.begin(), program.state.end());
  return values;
}

NamedTensors copies(Context& context, run::Executor& executor) {
  std::vector<Value> values = kept_values(executor.program());
  values.insert(values.end(), executor.program().inputs.begin(), executor.program().inputs.end());
  NamedTensors tensors;
  for (const Value value : values) {
    const program::ValueInfo& info = executor.program()[value];
    Tensor tensor = context.empty(info.type.spec(), info.name, info.category);
    std::ranges::copy(bytes_of(executor, value), tensor.state()->data.at());
    tensors.emplace(info.name, tensor);
  }
  return tensors;
}

void expect_same_bits(run::Executor& executor, Value value, const Tensor& tensor) {
  const auto expected = bytes_of(executor, value);
  const auto* found = tensor.state()->data.at();
  EXPECT_EQ(std::memcmp(expected.data(), found, expected.size()), 0) << executor.program()[value].name;
}

class EagerZoo : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(All, EagerZoo, testing::ValuesIn(zoo_names()), zoo_test_name);

TEST_P(EagerZoo, TrainsToTheBitsOfTheExecutor) {
  const models::Step step = small_step(models::find_model(GetParam()));
  run::Session session(step.program, {}, machine_budget());
  run::Executor& executor = session.executor();
  const Program& program = executor.program();
  start(executor, step);
  Workshop shop(256 << 20);
  const NamedTensors tensors = copies(shop.context, executor);
  for (int i = 0; i < 2; ++i) {
    executor.step();
    const NamedTensors outputs = run(shop.context, program, tensors);
    for (const Value value : program.outputs) {
      expect_same_bits(executor, value, outputs.at(program[value].name));
    }
    for (const Value value : kept_values(program)) expect_same_bits(executor, value, tensors.at(program[value].name));
  }
}

TEST(EagerPrograms, SayWhatIsNotGiven) {
  Workshop shop;
  const Program program = small_step(models::find_model("mlp")).program;
  EXPECT_THROW(run(shop.context, program, {}), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::eager

// Every model of the zoo, eagerly and by the executor: the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/run/eager/interpret.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/synthetic.h"
#include "tests/run/eager_fixture.h"
#include "tests/run/zoo_names.h"
#include "tests/test_device.h"

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
  executor.write_one<float>(step.program.find("optimizer.rate"), 0.01F);
  uint64_t stream = 0;
  const auto draw = [&](const std::vector<Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i) {
      train::start_value(executor, values[i], inits[i], 1, stream++);
    }
  };
  draw(step.program.parameters, step.inits);
  draw(step.program.state, step.state_inits);
}

std::vector<std::byte> bytes_of(run::Executor& executor, Value value) {
  std::vector<std::byte> copy;
  executor.view_bytes(value, [&](std::span<const std::byte> bytes) { copy.assign(bytes.begin(), bytes.end()); });
  return copy;
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
    tensor.fill_bytes([&](std::span<std::byte> into) { std::ranges::copy(bytes_of(executor, value), into.begin()); });
    tensors.emplace(info.name, tensor);
  }
  return tensors;
}

void expect_same_bits(Workshop& shop, run::Executor& executor, Value value, const Tensor& tensor) {
  const std::vector<std::byte> expected = bytes_of(executor, value);
  std::vector<std::byte> found(expected.size());
  shop.context.engine().device().read(found, tensor.state()->data.at());
  EXPECT_EQ(found, expected) << executor.program()[value].name;
}

class EagerZoo : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(All, EagerZoo, testing::ValuesIn(zoo_names()), zoo_test_name);

TEST_P(EagerZoo, TrainsToTheBitsOfTheExecutor) {
  const models::Step step = small_step(models::find_model(GetParam()));
  run::Session session(step.program, on_test_device(), machine_budget());
  run::Executor& executor = session.executor();
  const Program& program = executor.program();
  start(executor, step);
  Workshop shop(256 << 20);
  const NamedTensors tensors = copies(shop.context, executor);
  for (int i = 0; i < 2; ++i) {
    executor.step();
    const NamedTensors outputs = run(shop.context, program, tensors);
    for (const Value value : program.outputs) {
      expect_same_bits(shop, executor, value, outputs.at(program[value].name));
    }
    for (const Value value : kept_values(program))
      expect_same_bits(shop, executor, value, tensors.at(program[value].name));
  }
}

TEST(EagerPrograms, SayWhatIsNotGiven) {
  Workshop shop;
  const Program program = small_step(models::find_model("mlp")).program;
  EXPECT_THROW(run(shop.context, program, {}), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::eager

// The families of image models together: one program with symbols serves all sizes.
#include <gtest/gtest.h>

#include <random>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/conv.h"
#include "plimsoll/program/ops/dropout.h"
#include "plimsoll/program/ops/norm.h"
#include "plimsoll/program/ops/pool.h"
#include "plimsoll/program/ops/resize.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

// A small network over images of this shape, with the gradients of its parameters.
Program network(const Dims& images) {
  Builder b;
  const auto parameter = [&](const char* name, const Dims& shape) { return b.parameter(name, {DType::f32, shape}); };
  const Value x = b.input("x", {DType::f32, images});
  const Value seed = b.input("seed", {DType::i64, {}});
  const RunningStatistics running{b.state("mean", {DType::f32, {4}}), b.state("variance", {DType::f32, {4}})};
  const std::vector<Value> wanted = {parameter("w", {4, 3, 3, 3}), parameter("scale", {4}), parameter("shift", {4}),
                                     parameter("up", {4, 2, 2, 2})};
  Value y = conv(b, x, wanted[0], {}, {.stride = {2}, .padding = {1}});
  y = batch_norm(b, y, wanted[1], wanted[2], running);
  y = max_pool(b, y, {.kernel = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true});
  y = resize(b, y, {.scale = 2, .mode = ResizeMode::linear});
  y = dropout(b, y, seed, {.rate = 0.25});
  y = conv_transpose(b, y, wanted[3], {}, {.stride = {2}, .output_padding = {1}});
  y = instance_norm(b, y);
  y = adaptive_max_pool(b, avg_pool(b, y, {.kernel = {2}}), {2});
  const Root root{y, b.input("dy", b.type(y))};
  for (const Value gradient : gradients(b, std::span(&root, 1), wanted)) b.output(gradient);
  return std::move(b).finish();
}

Arrays<double> random_inputs(const Program& program) {
  std::mt19937 random(20);
  std::uniform_real_distribution<double> even(-1, 1);
  Arrays<double> given;
  for (const auto* sources : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *sources) {
      Array<double>& array = given[program[value].name] = Array<double>(program[value].type.spec());
      for (double& element : array.reals) element = even(random);
    }
  }
  return given;
}

TEST(SpatialOps, AProgramWithSymbolsBoundToSizesIsTheProgramOfThoseSizes) {
  const Program symbolic = network({Dim::symbol("batch"), 3, Dim::symbol("h"), Dim::symbol("w")});
  EXPECT_TRUE(find_problems(symbolic).empty());
  for (const auto& [batch, h, w] : {std::array{2, 9, 7}, std::array{1, 17, 31}, std::array{3, 4, 12}}) {
    const Program bound = bind(symbolic, {{"batch", batch}, {"h", h}, {"w", w}});
    const Program direct = network({batch, 3, h, w});
    EXPECT_EQ(write_program(bound), write_program(direct));
    const Arrays<double> given = random_inputs(direct);
    const auto found = evaluate(bound, given);
    for (const auto& [name, array] : evaluate(direct, given).outputs) {
      EXPECT_EQ(found.outputs.at(name).reals, array.reals) << name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::program

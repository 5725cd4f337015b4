#include "plimsoll/models/nn.h"

#include <gtest/gtest.h>

#include "plimsoll/program/text.h"

namespace plimsoll::models {
namespace {

using program::Scope;

std::vector<std::string> parameter_names(const Model& model) {
  std::vector<std::string> names;
  for (const Value value : model.program.parameters) names.push_back(model.program[value].name);
  return names;
}

Model one_linear(const NetOptions& options) {
  Net net(options);
  const Value x = net.input("x", {Net::batch(), 16});
  const Value y = linear(net, "fc", x, 3);
  return regress(std::move(net), y);
}

TEST(Nn, NamesParametersAsTheyNest) {
  Net net;
  Value x = net.input("x", {Net::batch(), 3, 8, 8});
  {
    const Scope layer(net.b, "layer1");
    const Scope block(net.b, "0");
    x = batch_norm(net, "bn1", conv2d(net, "conv1", x, 4, 3, {.bias = false}));
  }
  const Value y = linear(net, "fc", global_avg_pool(net, x), 2);
  const Model model = classify(std::move(net), y);
  EXPECT_EQ(parameter_names(model), (std::vector<std::string>{"layer1.0.conv1.weight", "layer1.0.bn1.weight",
                                                              "layer1.0.bn1.bias", "fc.weight", "fc.bias"}));
  EXPECT_EQ(model.inits, (std::vector<Init>{fan_in(27), constant(1), constant(0), fan_in(4), fan_in(4)}));
}

TEST(Nn, ADepthwiseConvolutionReadsOneChannel) {
  Net net;
  const Value x = net.input("x", {Net::batch(), 6, 8, 8});
  const Value y = conv2d(net, "dw", x, 6, 3, {.padding = 1, .groups = 6});
  EXPECT_EQ(net.b.type(y).text(), "f32[batch,6,8,8]");
  const Model model = std::move(net).finish(y);
  EXPECT_EQ(model.program[model.program.find("dw.weight")].type.text(), "f32[6,1,3,3]");
  EXPECT_EQ(model.inits[0], fan_in(9));
}

TEST(Nn, InferenceAnswersWithTheResultAndAsksForNoTarget) {
  const Model model = one_linear({.training = false});
  EXPECT_FALSE(model.loss);
  EXPECT_EQ(model.program.outputs, std::vector{model.result});
  EXPECT_EQ(model.program.inputs.size(), 1u);
}

TEST(Nn, TrainingInLowerPrecisionKeepsMasterWeights) {
  const Model model = one_linear({.dtype = DType::bf16});
  EXPECT_EQ(program::write_program(model.program),
            "input %x: bf16[batch,16]\n"
            "input %target: bf16[batch,3]\n"
            "parameter %fc.weight: f32[3,16]\n"
            "parameter %fc.bias: f32[3]\n"
            "%fc.cast: bf16[3,16] parameter = cast(%fc.weight) {dtype=bf16}\n"
            "%fc.cast_2: bf16[3] parameter = cast(%fc.bias) {dtype=bf16}\n"
            "%fc.linear: bf16[batch,3] = linear(%x, %fc.cast, %fc.cast_2)\n"
            "%mse_loss: f32[] = mse_loss(%fc.linear, %target)\n"
            "output %mse_loss\n");
}

TEST(Nn, InferenceInLowerPrecisionHoldsTheWeightsInIt) {
  const Model model = one_linear({.dtype = DType::f16, .training = false});
  EXPECT_EQ(model.program[model.program.find("fc.weight")].type.text(), "f16[3,16]");
  EXPECT_EQ(model.program.ops.size(), 1u);
}

TEST(Nn, DropoutIsNothingInInference) {
  Net net({.training = false});
  const Value x = net.input("x", {Net::batch(), 3});
  EXPECT_EQ(dropout(net, x, 0.5), x);
}

}  // namespace
}  // namespace plimsoll::models

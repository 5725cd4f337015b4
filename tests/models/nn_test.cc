#include "plimsoll/models/nn.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Nn, AttendsUnderTheNamesOfPyTorch) {
  Net net;
  const Value x = net.input("x", {Net::batch(), 5, 12});
  const Value y = multi_head_attention(net, "attn", x, {.count = 3, .causal = true});
  EXPECT_EQ(net.b.type(y).text(), "f32[batch,5,12]");
  const Model model = std::move(net).finish(y);
  EXPECT_EQ(parameter_names(model), (std::vector<std::string>{"attn.in_proj_weight", "attn.in_proj_bias",
                                                              "attn.out_proj.weight", "attn.out_proj.bias"}));
  EXPECT_EQ(model.inits, (std::vector<Init>{uniform(std::sqrt(6.0 / 48)), constant(0), fan_in(12), constant(0)}));
}

TEST(Nn, FunctionsGiveTheShapesOfPyTorch) {
  Net net;
  const auto shape = [&](Value value) { return net.b.type(value).text(); };
  const Value x = net.input("x", {Net::batch(), 4, 6, 8});
  for (const Value y : {relu(net, x), leaky_relu(net, x), gelu(net, x), gelu_tanh(net, x), silu(net, x),
                        sigmoid(net, x), tanh(net, x), softmax(net, x), add(net, x, x), sub(net, x, x), mul(net, x, x),
                        div(net, x, x), affine(net, x, 2, 1), group_norm(net, "gn", x, 2), rms_norm(net, "rms", x)}) {
    EXPECT_EQ(shape(y), "f32[batch,4,6,8]");
  }
  EXPECT_EQ(shape(matmul(net, x, transpose(net, x, {0, 1, 3, 2}))), "f32[batch,4,6,6]");
  EXPECT_EQ(shape(mean(net, x, {2, 3})), "f32[batch,4]");
  EXPECT_EQ(shape(mean(net, x, {1}, true)), "f32[batch,1,6,8]");
  EXPECT_EQ(shape(avg_pool(net, x, 2, 2)), "f32[batch,4,3,4]");
  EXPECT_EQ(shape(upsample(net, x, 2)), "f32[batch,4,12,16]");
  EXPECT_EQ(shape(flatten(net, x)), "f32[batch,192]");
  EXPECT_EQ(shape(reshape(net, x, {Net::batch(), 4, -1})), "f32[batch,4,48]");
  EXPECT_EQ(shape(slice(net, x, 3, 1, 4)), "f32[batch,4,6,3]");
  EXPECT_EQ(shape(concat(net, split(net, x, 1, 2), 3)), "f32[batch,2,6,16]");
  EXPECT_EQ(shape(embedding(net, "table", net.indices("tokens", {Net::batch(), 7}), 11, 3)), "f32[batch,7,3]");
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

#include "plimsoll/program/ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

using Build = std::function<Value(Builder&, Value x, Value weight, Value bias)>;

// With weight and bias, with weight only, with neither.
void check_norm(const Shape& x, const Shape& parameters, bool has_bias, const Build& norm) {
  SCOPED_TRACE(x.text());
  const std::string type = TensorSpec{DType::f32, x}.text();
  const Operand data{x, -2, 2};
  if (has_bias) {
    check_op({.operands = {data, {parameters}, {parameters}},
              .build = [&](Builder& b, const std::vector<Value>& in) { return norm(b, in[0], in[1], in[2]); },
              .type = type});
  }
  check_op({.operands = {data, {parameters}},
            .build = [&](Builder& b, const std::vector<Value>& in) { return norm(b, in[0], in[1], {}); },
            .type = type});
  check_op({.operands = {data},
            .build = [&](Builder& b, const std::vector<Value>& in) { return norm(b, in[0], {}, {}); },
            .type = type});
}

TEST(Norm, LayerAndRmsOnOddShapes) {
  struct Case {
    Shape x;
    Shape parameters;
    int64_t axis;
  };
  const std::vector<Case> cases = {{{1}, {1}, 0},         {{257}, {257}, -1},     {{3, 17}, {17}, -1},
                                   {{3, 17}, {3, 17}, 0}, {{2, 3, 5}, {3, 5}, 1}, {{3, 1, 31}, {31}, 2}};
  for (const Case& c : cases) {
    const LayerNormOptions options{.axis = c.axis};
    check_norm(c.x, c.parameters, true,
               [&](Builder& b, Value x, Value w, Value bias) { return layer_norm(b, x, w, bias, options); });
    check_norm(c.x, c.parameters, false,
               [&](Builder& b, Value x, Value w, Value) { return rms_norm(b, x, w, options); });
  }
}

TEST(Norm, GroupAndInstanceOnOddShapes) {
  for (const Shape& shape : {Shape{1, 6, 17}, Shape{3, 6, 3, 5}, Shape{2, 6, 1}, Shape{2, 6, 3, 1, 2}}) {
    for (const int64_t groups : {1, 2, 3}) {
      check_norm(shape, {6}, true,
                 [&](Builder& b, Value x, Value w, Value bias) { return group_norm(b, x, groups, w, bias); });
    }
    check_norm(shape, {6}, true, [](Builder& b, Value x, Value w, Value bias) { return instance_norm(b, x, w, bias); });
  }
}

TEST(Norm, BatchOnOddShapes) {
  for (const Shape& shape : {Shape{3, 17}, Shape{31, 1}, Shape{2, 3, 5}, Shape{1, 3, 1}, Shape{2, 3, 5, 3}}) {
    check_norm(shape, {shape[1]}, true,
               [](Builder& b, Value x, Value w, Value bias) { return batch_norm(b, x, w, bias); });
    check_norm(shape, {shape[1]}, true, [&](Builder& b, Value x, Value w, Value bias) {
      const Type statistics{DType::f32, {shape[1]}};
      return batch_norm_inference(b, x, w, bias, fill(b, 0.3, statistics), fill(b, 2.0, statistics));
    });
  }
}

TEST(Norm, ByHand) {
  const Operand x{.shape = {1, 2}, .values = {1, 3}};
  const double n = 1 / std::sqrt(1 + 1e-5);
  check_op({.operands = {x},
            .build = [](Builder& b, const std::vector<Value>& in) { return layer_norm(b, in[0]); },
            .expected = {-n, n}});
  check_op({.operands = {x, {.shape = {2}, .values = {2, 10}}},
            .build = [](Builder& b, const std::vector<Value>& in) { return rms_norm(b, in[0], in[1], {.eps = 4}); },
            .expected = {2 / 3.0, 10}});
}

TEST(Norm, ReadsViews) {
  check_op({.operands = {{{3, 17, 2}}, {{17}}, {{17}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return layer_norm(b, transpose(b, x[0], {2, 0, 1}), x[1], x[2]);
                },
            .type = "f32[2,3,17]"});
}

struct Trained {
  Builder b;
  Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 3, 5}});
  Value weight = b.parameter("weight", {DType::f32, {3}});
  Value bias = b.parameter("bias", {DType::f32, {3}});
  RunningStatistics running{b.state("mean", {DType::f32, {3}}), b.state("variance", {DType::f32, {3}}), 0.25};
};

TEST(Norm, BatchNormUpdatesItsRunningStatisticsInTheirStorage) {
  Trained t;
  batch_norm(t.b, t.x, t.weight, t.bias, t.running);
  EXPECT_EQ(t.b.program().ops.back().phase, Phase::update);
  EXPECT_EQ(t.b.program()[t.b.last_outputs()[1]].storage, t.running.variance);
  EXPECT_EQ(t.b.phase(), Phase::forward);
  Arrays<double> given;
  const Program program = bind(t.b.program(), {{"batch", 2}});
  for (const auto* sources : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *sources) given[program[value].name] = Array<double>(program[value].type.spec());
  }
  for (size_t i = 0; i < 30; ++i) given["x"].reals[i] = i % 2 == 0 ? 4 : 2;  // three or two of five are 4
  given["mean"].reals = {1, 1, 1};
  given["variance"].reals = {2, 2, 2};
  const auto after = evaluate(program, given).after;
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(after.at("mean").reals[c], 0.75 * 1 + 0.25 * 3, 1e-12);
    EXPECT_NEAR(after.at("variance").reals[c], 0.75 * 2 + 0.25 * 10 / 9, 1e-12);
  }
}

TEST(Norm, BackwardIsOneOpThatReadsSmallStatistics) {
  Trained t;
  const Value y = batch_norm(t.b, t.x, t.weight, t.bias, t.running);
  const Root root{y, t.b.input("dy", t.b.type(y))};
  const std::vector<Value> wanted = {t.x, t.weight, t.bias};
  const size_t forward = t.b.program().ops.size();
  const std::vector<Value> found = gradients(t.b, std::span(&root, 1), wanted);
  ASSERT_EQ(t.b.program().ops.size(), forward + 1);
  const Op& backward = t.b.program().ops.back();
  EXPECT_EQ(backward.outputs, found);
  std::vector<std::string> types;
  for (const Value value : backward.inputs) types.push_back(t.b.type(value).text());
  EXPECT_EQ(types, (std::vector<std::string>{"f32[batch,3,5]", "f32[batch,3,5]", "f32[3]", "f32[3]", "f32[3]"}));
}

TEST(Norm, GradientsOfParametersAreMadeOnlyWhenAsked) {
  Trained t;
  const Value y = batch_norm(t.b, t.x, t.weight, t.bias);
  const Root root{y, t.b.input("dy", t.b.type(y))};
  gradients(t.b, std::span(&root, 1), std::span(&t.x, 1));
  EXPECT_FALSE(t.b.last_outputs()[1]);
  EXPECT_FALSE(t.b.last_outputs()[2]);
}

TEST(Norm, FrozenStatisticsNeedNoInputForTheGradientOfX) {
  Trained t;
  const Value y = batch_norm_inference(t.b, t.x, t.weight, t.bias, t.running.mean, t.running.variance);
  const Root root{y, t.b.input("dy", t.b.type(y))};
  gradients(t.b, std::span(&root, 1), std::span(&t.x, 1));
  EXPECT_EQ(t.b.program().ops.back().inputs, (std::vector{root.seed, t.running.variance, t.weight}));
  EXPECT_THROW(gradients(t.b, std::span(&root, 1), std::span(&t.running.mean, 1)), ArgumentError);
}

TEST(Norm, HalfPrecisionKeepsStatisticsInF32) {
  Builder b;
  const Value x = b.input("x", {DType::bf16, {3, 5}});
  const Value weight = b.parameter("weight", {DType::f32, {5}});
  const Root root{layer_norm(b, x, weight), b.input("dy", b.type(x))};
  const std::vector<Value> wanted = {x, weight};
  const std::vector<Value> found = gradients(b, std::span(&root, 1), wanted);
  EXPECT_EQ(b.type(found[0]).text(), "bf16[3,5]");
  EXPECT_EQ(b.type(found[1]).text(), "f32[5]");
  EXPECT_EQ(b.type(b.program().ops[0].outputs[1]).text(), "f32[3]");
}

TEST(Norm, RejectsWhatDoesNotFit) {
  Trained t;
  Builder& b = t.b;
  EXPECT_THROW(layer_norm(b, t.x, t.weight), ArgumentError);
  EXPECT_THROW(layer_norm(b, t.x, {}, t.bias), ArgumentError);
  EXPECT_THROW(layer_norm(b, t.x, {}, {}, {.axis = 3}), ArgumentError);
  EXPECT_THROW(group_norm(b, t.x, 2), ArgumentError);
  EXPECT_THROW(group_norm(b, t.x, 0), ArgumentError);
  EXPECT_THROW(batch_norm(b, t.weight), ArgumentError);
  EXPECT_THROW(instance_norm(b, t.weight), ArgumentError);
  const Value one = b.input("one", {DType::f32, {1, 3}});
  EXPECT_THROW(batch_norm(b, one, t.weight, t.bias, t.running), ArgumentError);
  const Value y = batch_norm(b, t.x);
  const Root mean{b.optional_output(b.program().ops.size() - 1, 1)};
  EXPECT_THROW(gradients(b, std::span(&mean, 1), std::span(&t.x, 1)), ArgumentError);
  try {
    batch_norm(b, y, one);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "batch_norm %batch_norm: x is f32[batch,3,5], weight is f32[1,3]; weight must be f32[3]");
  }
}

}  // namespace
}  // namespace plimsoll::program

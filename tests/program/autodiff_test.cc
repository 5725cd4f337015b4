#include "plimsoll/program/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/optimizer.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/verify.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

int64_t count_ops(const Program& program, std::string_view kind) {
  return std::count_if(program.ops.begin(), program.ops.end(), [&](const Op& op) { return op.def->name == kind; });
}

struct TwoLayers {
  Builder b;
  Value x = b.input("x", {DType::f32, {1, 4}});
  Value w1 = b.parameter("w1", {DType::f32, {3, 4}});
  Value w2 = b.parameter("w2", {DType::f32, {1, 3}});
  Value hidden = relu(b, matmul(b, x, w1, {.transpose_b = true}));
  Value loss = matmul(b, hidden, w2, {.transpose_b = true});
};

// A weight that two ops use has a gradient from each, which are added: all three are memory of gradients.
TEST(Autodiff, BooksEveryPartOfATiedWeightsGradientAsAGradient) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {1, 4}});
  const Value w = b.parameter("w", {DType::f32, {4, 4}});
  const Value hidden = relu(b, matmul(b, x, w));
  const Value loss = matmul(b, matmul(b, hidden, w), x, {.transpose_b = true});
  gradients(b, loss, std::span(&w, 1));
  int64_t gradients_of_w = 0;
  for (const ValueInfo& value : b.program().values) {
    const bool is_activation = value.type.shape.elements() != 16;
    EXPECT_EQ(value.category == Category::gradient, !is_activation && value.name != "w") << value.name;
    gradients_of_w += value.category == Category::gradient ? 1 : 0;
  }
  EXPECT_EQ(gradients_of_w, 3);
}

TEST(Autodiff, EmitsOnlyWhatIsAsked) {
  TwoLayers net;
  const Value found = gradients(net.b, net.loss, std::span(&net.w2, 1))[0];
  EXPECT_EQ(net.b.type(found), net.b.type(net.w2));
  EXPECT_EQ(count_ops(net.b.program(), "mask_backward"), 0);
  EXPECT_EQ(count_ops(net.b.program(), "matmul"), 3);
  EXPECT_EQ(net.b.program()[found].category, Category::gradient);
  EXPECT_EQ(net.b.program()[found].name, "grad.w2");
  EXPECT_EQ(net.b.program().ops.back().phase, Phase::backward);
  EXPECT_EQ(net.b.phase(), Phase::forward);
}

TEST(Autodiff, BackwardOfReluReadsItsMaskNotItsOperands) {
  TwoLayers net;
  gradients(net.b, net.loss, std::span(&net.w1, 1));
  const Program& program = net.b.program();
  const auto op = std::find_if(program.ops.begin(), program.ops.end(),
                               [](const Op& candidate) { return candidate.def->name == "mask_backward"; });
  ASSERT_NE(op, program.ops.end());
  EXPECT_EQ(program[op->inputs[1]].name, "relu.mask");
}

TEST(Autodiff, SumsGradientsOfAValueUsedTwice) {
  check_op({.operands = {{{3, 3}}}, .build = [](Builder& b, const std::vector<Value>& x) {
              return add(b, matmul(b, x[0], sigmoid(b, x[0])), transpose(b, x[0], {1, 0}));
            }});
}

TEST(Autodiff, ValueThatTheLossIgnoresHasNoGradient) {
  TwoLayers net;
  const Value other = net.b.parameter("other", {DType::f32, {3}});
  const std::vector<Value> wanted = {other, net.w1};
  const auto found = gradients(net.b, net.loss, wanted);
  EXPECT_FALSE(found[0]);
  EXPECT_TRUE(found[1]);
}

TEST(Autodiff, GradientOfAnIntegerIsAnErrorThatNamesIt) {
  TwoLayers net;
  const Value labels = net.b.input("labels", {DType::i64, {1}});
  try {
    gradients(net.b, net.loss, std::span(&labels, 1));
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("%labels is i64[1]"), std::string::npos) << error.what();
  }
}

TEST(Autodiff, LossMustBeOneElement) {
  TwoLayers net;
  EXPECT_THROW(gradients(net.b, net.hidden, std::span(&net.w1, 1)), ArgumentError);
}

TEST(Autodiff, OpWithoutGradientIsNamed) {
  Builder b;
  const Value w = b.parameter("w", {DType::f32, {}});
  const Value rate = b.input("rate", {DType::f32, {}});
  const Value updated = sgd(b, w, w, rate);
  EXPECT_THROW(gradients(b, updated, std::span(&w, 1)), ArgumentError);
}

TEST(Autodiff, TrainingStepMovesTheParameterInPlace) {
  TwoLayers net;
  Builder& b = net.b;
  const Value rate = b.input("rate", {DType::f32, {}});
  const Value gradient = gradients(b, net.loss, std::span(&net.w2, 1))[0];
  b.set_phase(Phase::update);
  const Value updated = sgd(b, net.w2, gradient, rate);
  b.output(net.loss);
  EXPECT_EQ(b.program()[updated].storage, net.w2);
  const Program program = std::move(b).finish();
  Arrays<double> given;
  for (const Value value : {net.x, net.w1, net.w2, rate}) {
    given[program[value].name] = Array<double>(program[value].type.spec());
    for (double& x : given[program[value].name].reals) x = 0.5;
  }
  const auto result = evaluate(program, given);
  EXPECT_DOUBLE_EQ(result.outputs.at("matmul_2").reals[0], 1.5);
  EXPECT_DOUBLE_EQ(result.after.at("w2").reals[0], 0.5 - 0.5 * 1);
  EXPECT_DOUBLE_EQ(result.after.at("w1").reals[0], 0.5);
}

}  // namespace
}  // namespace plimsoll::program

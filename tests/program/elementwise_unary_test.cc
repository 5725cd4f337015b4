#include "plimsoll/program/ops/elementwise_unary.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

using Unary = std::function<Value(Builder&, Value)>;

void check_on_odd_shapes(const Unary& op, double low, double high) {
  for (const Shape& shape : kOddShapes) {
    SCOPED_TRACE(shape.text());
    check_op({.operands = {{shape, low, high}},
              .build = [op](Builder& b, const std::vector<Value>& x) { return op(b, x[0]); },
              .type = TensorSpec{DType::f32, shape}.text()});
  }
}

Value leaky(Builder& b, Value x) { return leaky_relu(b, x, 0.2); }
Value wavy(Builder& b, Value x) { return leaky_relu(b, x, -0.5); }
Value between(Builder& b, Value x) { return clamp(b, x, -1.5, 0.5); }
Value hard(Builder& b, Value x) { return hard_sigmoid(b, x, 0.2, 0.4); }
Value exponential(Builder& b, Value x) { return elu(b, x, 1.5); }
Value soft(Builder& b, Value x) { return softplus(b, x, 2); }
Value line(Builder& b, Value x) { return affine(b, x, {.scale = 3, .divisor = 7, .shift = -2}); }
Value cube(Builder& b, Value x) { return pow(b, x, 3.0); }
Value one(Builder& b, Value x) { return pow(b, x, 0.0); }
Value root(Builder& b, Value x) { return pow(b, x, 0.25); }
Value widened(Builder& b, Value x) { return cast(b, cast(b, x, DType::f64), DType::f32); }

TEST(ElementwiseUnary, OpsOfAllNumbersOnOddShapes) {
  for (const auto op : {relu, leaky, wavy, between, hard, relu6}) {
    check_on_odd_shapes(op, -4, 7);
  }
  for (const auto op : {sigmoid, tanh, exp, exponential, soft, silu, gelu, gelu_tanh, mish, hard_swish}) {
    check_on_odd_shapes(op, -4, 4);
  }
  for (const auto op : {abs, square, sin, cos, erf, neg, identity, line, cube, one, widened}) {
    check_on_odd_shapes(op, -3, 3);
  }
}

TEST(ElementwiseUnary, OpsOfPositiveNumbersOnOddShapes) {
  for (const auto op : {sqrt, log, rsqrt, reciprocal, root}) check_on_odd_shapes(op, 0.1, 3);
}

TEST(ElementwiseUnary, StepsHaveTheGradientZero) {
  for (const auto op : {sign, floor, ceil, round}) check_on_odd_shapes(op, -3, 3);
}

std::vector<double> values_of(const Unary& op, const std::vector<double>& x, DType dtype = DType::f64) {
  Builder b;
  const Type type{dtype, {static_cast<int64_t>(x.size())}};
  b.output(op(b, b.input("x", type)));
  Array<double> given(type.spec());
  given.reals = is_floating(dtype) ? x : std::vector<double>{};
  if (!is_floating(dtype)) given.ints.assign(x.begin(), x.end());
  const Array<double> y = evaluate<double>(b.program(), {{"x", given}}).outputs.begin()->second;
  return y.reals.empty() ? std::vector<double>(y.ints.begin(), y.ints.end()) : y.reals;
}

TEST(ElementwiseUnary, IntegersHaveSignsAndSquares) {
  const std::vector<double> x = {-3, 0, 2};
  EXPECT_EQ(values_of(abs, x, DType::i32), (std::vector<double>{3, 0, 2}));
  EXPECT_EQ(values_of(neg, x, DType::i32), (std::vector<double>{3, 0, -2}));
  EXPECT_EQ(values_of(sign, x, DType::i32), (std::vector<double>{-1, 0, 1}));
  EXPECT_EQ(values_of(square, x, DType::i64), (std::vector<double>{9, 0, 4}));
}

TEST(ElementwiseUnary, RoundTakesHalvesToEven) {
  EXPECT_EQ(values_of(round, {-1.5, -0.5, 0.5, 1.5, 2.5}), (std::vector<double>{-2, 0, 0, 2, 2}));
}

TEST(ElementwiseUnary, CastCutsOffTheFractionAndAsksWhetherItIsZero) {
  const auto to = [](DType dtype) { return [dtype](Builder& b, Value x) { return cast(b, x, dtype); }; };
  EXPECT_EQ(values_of(to(DType::i64), {-1.5, 0.5, 2.9}), (std::vector<double>{-1, 0, 2}));
  EXPECT_EQ(values_of(to(DType::boolean), {-1.5, 0, 2.9}), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(values_of(to(DType::f32), {0, 1}, DType::boolean), (std::vector<double>{0, 1}));
}

TEST(ElementwiseUnary, SoftplusKeepsItsSlopeFarFromZero) {
  check_op({.operands = {{.shape = {4}, .values = {-30, -5, 5, 40}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return softplus(b, x[0]); }});
}

TEST(ElementwiseUnary, IdentityAndCastsToTheSameDtypeAreViews) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 5}});
  EXPECT_EQ(b.program()[identity(b, x)].storage, x);
  EXPECT_EQ(b.program()[cast(b, x, DType::f32)].storage, x);
  const Value wide = cast(b, x, DType::f64);
  EXPECT_EQ(b.program()[wide].storage, wide);
}

// The operand besides dy that the backward op of op(x) reads.
std::string read_by_backward_of(const Unary& op) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {16}});
  const Value y = op(b, x);
  b.rename(y, "y");
  const Root root{y, b.input("dy", b.type(y))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  const Op& last = b.program().ops.back();
  return last.inputs.size() < 2 ? "nothing" : b.program()[last.inputs[1]].name;
}

TEST(ElementwiseUnary, BackwardReadsAsLittleAsItCan) {
  for (const auto op : {leaky, between, hard, relu6}) EXPECT_EQ(read_by_backward_of(op), "y.mask");
  for (const auto op : {sigmoid, tanh, exp, sqrt, rsqrt, reciprocal, exponential, soft}) {
    EXPECT_EQ(read_by_backward_of(op), "y");
  }
  for (const auto op : {log, silu, gelu, gelu_tanh, mish, hard_swish, abs, square, sin, cos, erf, cube}) {
    EXPECT_EQ(read_by_backward_of(op), "x");
  }
  for (const auto op : {neg, line, widened, identity, floor}) EXPECT_EQ(read_by_backward_of(op), "nothing");
}

TEST(ElementwiseUnary, ReluKeepsWhatIsPositive) {
  check_op({.operands = {{.shape = {4}, .values = {-1, 2, -0.5, 3}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return relu(b, x[0]); },
            .expected = {0, 2, 0, 3}});
}

TEST(ElementwiseUnary, ReluSavesOneBitAnElementAndOnlyForBackward) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 64}});
  const Value y = relu(b, x);
  EXPECT_FALSE(b.last_outputs()[1]);
  const Root root{y, b.input("seed", b.type(y))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  const Value mask = b.program().ops[0].outputs[1];
  ASSERT_TRUE(mask);
  EXPECT_EQ(b.type(mask).text(), "u8[8*batch]");
  EXPECT_EQ(b.last_outputs().size(), 1u);
  EXPECT_EQ(b.program().ops.back().inputs, (std::vector{root.seed, mask}));
}

TEST(ElementwiseUnary, RejectsIntegers) {
  Builder b;
  const Value x = b.input("x", {DType::i64, {3}});
  EXPECT_EQ(error_of([&] { relu(b, x); }), "relu %relu: x is i64[3]; x must be floating");
}

TEST(ElementwiseUnary, RejectsAttributesThatMakeNoSense) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3}});
  EXPECT_EQ(error_of([&] { elu(b, x, -1); }), "elu %elu: x is f32[3]; alpha must be at least 0");
  EXPECT_EQ(error_of([&] { softplus(b, x, 0); }), "softplus %softplus: x is f32[3]; beta must be above 0");
  EXPECT_EQ(error_of([&] { affine(b, x, {.divisor = -2}); }),
            "affine %affine: x is f32[3]; divisor must not be negative");
  EXPECT_EQ(error_of([&] {
              b.emit("cast", {x}, {{"dtype", "f31"}});
            }),
            "cast %cast: x is f32[3]; dtype is f31, expected a name like f32 or i64");
  EXPECT_EQ(error_of([&] {
              neg(b, b.input("c", {DType::boolean, {3}}));
            }),
            "neg %neg: x is bool[3]; x must be floating or integer");
}

}  // namespace
}  // namespace plimsoll::program

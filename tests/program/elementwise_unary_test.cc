#include "plimsoll/program/ops/elementwise_unary.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

using Unary = Value (*)(Builder&, Value);

void check_on_odd_shapes(Unary op, double low, double high) {
  for (const Shape& shape : kOddShapes) {
    SCOPED_TRACE(shape.text());
    check_op({.operands = {{shape, low, high}},
              .build = [op](Builder& b, const std::vector<Value>& x) { return op(b, x[0]); },
              .type = TensorSpec{DType::f32, shape}.text()});
  }
}

TEST(ElementwiseUnary, ValuesAndGradientsOnOddShapes) {
  for (const Unary op : {relu, sigmoid, tanh, exp, silu, gelu, neg}) check_on_odd_shapes(op, -3, 3);
  for (const Unary op : {Unary(sqrt), Unary(log)}) check_on_odd_shapes(op, 0.1, 3);
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
  try {
    relu(b, x);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "relu %relu: x is i64[3]; x must be floating");
  }
}

}  // namespace
}  // namespace plimsoll::program

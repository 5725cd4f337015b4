#include "plimsoll/program/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

TEST(Softmax, ValuesAndGradientsAlongEveryAxis) {
  for (const Shape& shape : kOddShapes) {
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis) {
      check_op({.operands = {{shape, -3, 3}},
                .build = [=](Builder& b, const std::vector<Value>& x) { return softmax(b, x[0], axis); }});
      check_op({.operands = {{shape, -3, 3}},
                .build = [=](Builder& b, const std::vector<Value>& x) { return log_softmax(b, x[0], axis); }});
    }
  }
}

TEST(Softmax, SumsToOneWithoutOverflow) {
  check_op({.operands = {{.shape = {2, 2}, .values = {1000, 1000, -1000, -1000 + std::log(3.0)}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return softmax(b, x[0]); },
            .expected = {0.5, 0.5, 0.25, 0.75},
            .differentiable = false});
}

TEST(Softmax, ReadsViewsAndEmptyArrays) {
  check_op({.operands = {{{3, 5}}}, .build = [](Builder& b, const std::vector<Value>& x) {
              return softmax(b, transpose(b, x[0], {1, 0}));
            }});
  check_op({.operands = {{{3, 0}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return log_softmax(b, x[0]); },
            .type = "f32[3,0]"});
}

TEST(Softmax, BackwardReadsTheOutputOnly) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 5}});
  const Value y = softmax(b, x);
  const Root root{y};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  const Op& backward = b.program().ops.back();
  EXPECT_EQ(backward.def->name, "softmax_backward");
  EXPECT_EQ(backward.inputs[1], y);
  EXPECT_EQ(backward.inputs.size(), 2u);
}

TEST(Softmax, AxisMustExist) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 5}});
  EXPECT_EQ(error_of([&] { softmax(b, x, 2); }), "softmax %softmax: x is f32[3,5]; axis is 2, expected -2 to 1");
  const Value i = b.input("i", {DType::i32, {3}});
  EXPECT_EQ(error_of([&] { softmax(b, i); }), "softmax %softmax: x is i32[3]; x must be floating");
}

}  // namespace
}  // namespace plimsoll::program

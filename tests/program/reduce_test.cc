#include "plimsoll/program/ops/reduce.h"

#include <gtest/gtest.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/verify.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

using Reduce = std::function<Value(Builder&, Value, const ReduceOptions&)>;

struct Over {
  Shape shape;
  ReduceOptions options;
  const char* type;
};

const std::vector<Over> kOver = {{{1}, {}, "f32[]"},
                                 {{257}, {.axes = {0}}, "f32[]"},
                                 {{3, 17}, {.axes = {0}}, "f32[17]"},
                                 {{3, 17}, {.axes = {-1}}, "f32[3]"},
                                 {{3, 17}, {.axes = {1}, .keepdims = true}, "f32[3,1]"},
                                 {{31, 1}, {.keepdims = true}, "f32[1,1]"},
                                 {{2, 3, 5}, {.axes = {0, 2}}, "f32[3]"},
                                 {{2, 3, 5}, {.axes = {-1, 0}, .keepdims = true}, "f32[1,3,1]"},
                                 {{3, 1, 17, 2}, {.axes = {1}}, "f32[3,17,2]"}};

void check_everywhere(const Reduce& op, double low, double high) {
  for (const Over& over : kOver) {
    SCOPED_TRACE(over.shape.text() + " over " + over.options.axes.text());
    check_op({.operands = {{over.shape, low, high}},
              .build = [&](Builder& b, const std::vector<Value>& x) { return op(b, x[0], over.options); },
              .type = over.type});
  }
}

TEST(ReduceOps, ValuesAndGradientsOverAnyAxes) {
  for (const auto op : {sum, mean, max, min}) check_everywhere(op, -2, 2);
  check_everywhere(prod, 0.9, 1.1);
  check_everywhere(norm2, -2, 2);
  check_everywhere([](Builder& b, Value x, const ReduceOptions& options) { return var(b, x, options, 0); }, -2, 2);
}

TEST(ReduceOps, VarianceIsCorrectedForTheMean) {
  check_op({.operands = {{.shape = {2, 3}, .values = {1, 2, 3, 4, 6, 11}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return var(b, x[0], {.axes = {1}}); },
            .type = "f32[2]",
            .expected = {1, 13}});
}

TEST(ReduceOps, ViewsAreReduced) {
  check_op({.operands = {{{5, 3}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return sum(b, transpose(b, x[0], {1, 0}), {.axes = {0}});
                },
            .type = "f32[5]"});
}

TEST(ReduceOps, ProductsWithZerosHaveGradients) {
  check_op({.operands = {{.shape = {3, 3}, .values = {0, 2, 3, 0, 0, 4, 1, 2, 3}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return prod(b, x[0], {.axes = {1}}); },
            .expected = {0, 0, 6}});
}

TEST(ReduceOps, IntegersAreSummedAndCompared) {
  const std::vector<std::pair<Value (*)(Builder&, Value, const ReduceOptions&), double>> cases = {
      {sum, 4}, {max, 5}, {min, -3}, {prod, -30}};
  for (const auto& [op, expected] : cases) {
    const auto reduce = op;
    check_op({.operands = {{.shape = {3}, .dtype = DType::i32, .values = {-3, 5, 2}}},
              .build = [reduce](Builder& b, const std::vector<Value>& x) { return reduce(b, x[0], {}); },
              .type = "i32[]",
              .expected = {expected}});
  }
}

TEST(ReduceOps, SumOfNothingIsZero) {
  check_op({.operands = {{{0, 3}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return sum(b, x[0], {.axes = {0}}); },
            .type = "f32[3]",
            .expected = {0, 0, 0}});
}

TEST(ReduceOps, TheGradientOfASumIsAViewOfDy) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 17}});
  const Value y = sum(b, x, {.axes = {1}});
  const Root root{y, b.input("dy", b.type(y))};
  const Value dx = gradients(b, std::span(&root, 1), std::span(&x, 1))[0];
  EXPECT_EQ(b.program()[dx].storage, root.seed);
  EXPECT_EQ(b.program()[dx].view->strides.text(), "[1,0]");
}

TEST(ReduceOps, MeansDivideByTheSizeThatIsBound) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 2}});
  const Value y = mean(b, x);
  const Value dx = gradients(b, y, std::span(&x, 1))[0];
  EXPECT_EQ(b.program()[dx].view->strides.text(), "[0,0]");
  const Op& divide = b.program().ops[b.program().ops.size() - 3];
  EXPECT_EQ(divide.def->name, "affine");
  EXPECT_EQ(divide.attributes[1].text(), "2*batch");
  for (const int64_t size : {1, 5}) EXPECT_NO_THROW(verify_bound(bind(b.program(), {{"batch", size}})));
}

TEST(ReduceOps, MaxSavesAnIndexForEachResult) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 257}});
  const Value y = max(b, x, {.axes = {1}});
  EXPECT_FALSE(b.last_outputs()[1]);
  const Root root{y, b.input("dy", b.type(y))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  EXPECT_EQ(b.program().ops.back().inputs, (std::vector{root.seed, b.program().ops[0].outputs[1]}));
  EXPECT_EQ(b.type(b.program().ops[0].outputs[1]).text(), "i32[3]");
}

TEST(ReduceOps, SumToUndoesBroadcasting) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {2, 3, 5}});
  EXPECT_EQ(sum_to(b, x, {2, 3, 5}), x);
  EXPECT_EQ(b.type(sum_to(b, x, {3, 1})).text(), "f32[3,1]");
  EXPECT_EQ(b.type(sum_to(b, x, {})).text(), "f32[]");
  EXPECT_EQ(error_of([&] { sum_to(b, x, {2}); }), "sum_to: %x is f32[2,3,5], which [2] does not broadcast to");
}

TEST(ReduceOps, RejectsWhatMakesNoSense) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 17}});
  EXPECT_EQ(error_of([&] { sum(b, x, {.axes = {2}}); }), "sum %sum: x is f32[3,17]; axes has 2, expected -2 to 1");
  EXPECT_EQ(error_of([&] {
              sum(b, x, {.axes = {1, -1}});
            }),
            "sum %sum: x is f32[3,17]; axes [1,-1] names a dimension twice");
  EXPECT_EQ(error_of([&] { mean(b, b.input("i", {DType::i32, {3}})); }), "mean %mean: x is i32[3]; x must be floating");
  EXPECT_EQ(error_of([&] {
              max(b, b.input("none", {DType::f32, {0}}));
            }),
            "max %max: x is f32[0]; there is no extreme of no elements");
}

}  // namespace
}  // namespace plimsoll::program

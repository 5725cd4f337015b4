#include "plimsoll/program/ops/index.h"

#include <gtest/gtest.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

Operand indices(const Shape& shape, double low, double high) { return {shape, low, high, DType::i64}; }

TEST(IndexOps, GatherTakesSlices) {
  const auto along = [](int axis) {
    return [axis](Builder& b, const std::vector<Value>& x) { return gather(b, x[0], x[1], axis); };
  };
  check_op({.operands = {{{257}}, indices({31}, 0, 256)}, .build = along(0), .type = "f32[31]"});
  check_op({.operands = {{{3, 17}}, indices({}, -17, 16)}, .build = along(1), .type = "f32[3]"});
  check_op({.operands = {{{3, 17, 2}}, indices({2, 3}, -17, 16)}, .build = along(-2), .type = "f32[3,2,3,2]"});
  check_op({.operands = {{.shape = {3, 2}, .values = {1, 2, 3, 4, 5, 6}},
                         {.shape = {3}, .dtype = DType::i32, .values = {2, 0, -1}}},
            .build = along(0),
            .expected = {5, 6, 1, 2, 5, 6}});
}

TEST(IndexOps, EmbeddingTakesRowsAndPaddingLearnsNothing) {
  check_op({.operands = {{{31, 3}}, indices({2, 17}, 0, 30)},
            .build = [](Builder& b, const std::vector<Value>& x) { return embedding(b, x[0], x[1]); },
            .type = "f32[2,17,3]"});
  Builder b;
  const Value w = b.parameter("w", {DType::f32, {4, 1}});
  const Value y = embedding(b, w, b.input("index", {DType::i64, {4}}), 2);
  const Root root{y, b.input("dy", b.type(y))};
  b.output(gradients(b, std::span(&root, 1), std::span(&w, 1))[0]);
  Arrays<double> given;
  for (const char* name : {"w", "index", "dy"}) given[name] = Array<double>(b.type(b.program().find(name)).spec());
  given["index"].ints = {1, 2, 1, 3};
  given["dy"].reals = {10, 20, 30, 40};
  EXPECT_EQ(evaluate<double>(b.program(), given).outputs["grad.w"].reals, (std::vector<double>{0, 40, 0, 40}));
}

TEST(IndexOps, ElementsAreGatheredAndScattered) {
  const auto gather_along = [](int axis) {
    return [axis](Builder& b, const std::vector<Value>& x) { return gather_elements(b, x[0], x[1], axis); };
  };
  check_op({.operands = {{{3, 17}}, indices({3, 5}, -17, 16)}, .build = gather_along(1), .type = "f32[3,5]"});
  check_op({.operands = {{{3, 17}}, indices({7, 2}, 0, 2)}, .build = gather_along(-2), .type = "f32[7,2]"});
  const std::vector<Operand> once = {
      {{5, 3}}, {.shape = {2, 3}, .dtype = DType::i64, .values = {0, 4, 1, 2, 0, -1}}, {{2, 3}}};
  check_op({.operands = once,
            .build = [](Builder& b, const std::vector<Value>& x) { return scatter_elements(b, x[0], x[1], x[2]); },
            .type = "f32[5,3]"});
  check_op({.operands = {{{5, 3}}, indices({17, 3}, 0, 4), {{17, 3}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return scatter_add(b, x[0], x[1], x[2]); },
            .type = "f32[5,3]"});
  check_op({.operands = {{{3, 5}}, indices({17, 3}, 0, 4), {{17, 3}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return scatter_add(b, transpose(b, x[0], {1, 0}), x[1], x[2]);
                },
            .type = "f32[5,3]"});
}

TEST(IndexOps, OneHotMarksThePlace) {
  check_op({.operands = {{.shape = {3}, .dtype = DType::i64, .values = {2, 0, 1}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return one_hot(b, x[0], 3); },
            .type = "f32[3,3]",
            .expected = {0, 0, 1, 1, 0, 0, 0, 1, 0}});
  check_op({.operands = {{.shape = {1}, .dtype = DType::i64, .values = {1}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return one_hot(b, x[0], 2, DType::boolean); },
            .type = "bool[1,2]",
            .expected = {0, 1}});
}

TEST(IndexOps, BackwardReadsOnlyTheIndices) {
  Builder b;
  const Value w = b.parameter("w", {DType::f32, {Dim::symbol("vocabulary"), 8}});
  const Value index = b.input("index", {DType::i64, {Dim::symbol("batch"), 5}});
  const Value y = embedding(b, w, index);
  const Root root{y, b.input("dy", b.type(y))};
  const Value dw = gradients(b, std::span(&root, 1), std::span(&w, 1))[0];
  EXPECT_EQ(b.program().ops.back().inputs, (std::vector{root.seed, index}));
  EXPECT_EQ(b.type(dw).text(), "f32[vocabulary,8]");
  EXPECT_EQ(b.program()[dw].category, Category::gradient);
}

std::string error_with(const std::function<Value(Builder&, Value)>& op, const Type& type,
                       const std::vector<int64_t>& values) {
  Builder b;
  op(b, b.input("index", type));
  Arrays<double> given;
  given["index"] = Array<double>(type.spec());
  given["index"].ints = values;
  for (const char* name : {"x", "w"}) {
    const Value value = b.program().find(name);
    if (value) given[name] = Array<double>(b.type(value).spec());
  }
  return error_of([&] { evaluate<double>(b.program(), given); });
}

TEST(IndexOps, AnIndexOutOfRangeIsToldWithItsPlace) {
  const auto take = [](Builder& b, Value index) { return gather(b, b.input("x", {DType::f32, {10, 4}}), index); };
  EXPECT_EQ(error_with(take, {DType::i64, {2, 2}}, {0, 9, 17, 3}),
            "gather %gather: x is f32[10,4], index is i64[2,2]; index[1,0] is 17, expected -10 to 9");
  const auto embed = [](Builder& b, Value index) { return embedding(b, b.input("w", {DType::f32, {10, 4}}), index); };
  EXPECT_EQ(error_with(embed, {DType::i32, {3}}, {0, 9, -1}),
            "embedding %embedding: w is f32[10,4], index is i32[3]; index[2] is -1, expected 0 to 9");
  const auto mark = [](Builder& b, Value index) { return one_hot(b, index, 3); };
  EXPECT_EQ(error_with(mark, {DType::i64, {2}}, {0, 3}),
            "one_hot %one_hot: index is i64[2]; index[1] is 3, expected 0 to 2");
  const auto pick = [](Builder& b, Value index) {
    return gather_elements(b, b.input("x", {DType::f32, {10, 4}}), index, 1);
  };
  EXPECT_EQ(error_with(pick, {DType::i64, {1, 1}}, {4}),
            "gather_elements %gather_elements: x is f32[10,4], index is i64[1,1]; index[0,0] is 4, expected -4 to 3");
}

TEST(IndexOps, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 17}});
  const Value index = b.input("index", {DType::i64, {4, 2}});
  EXPECT_EQ(error_of([&] { gather(b, x, x); }),
            "gather %gather: x is f32[3,17], index is f32[3,17]; index must be integer");
  EXPECT_EQ(
      error_of([&] { gather_elements(b, x, index, 1); }),
      "gather_elements %gather_elements: x is f32[3,17], index is i64[4,2]; index must have the rank of [3,17] and, "
      "but for dimension 1, no more elements");
  EXPECT_EQ(error_of([&] { scatter_add(b, x, index, x); }),
            "scatter_elements %scatter_elements: x is f32[3,17], index is i64[4,2], updates is f32[3,17]; index and "
            "updates must have the same shape");
  EXPECT_EQ(error_of([&] {
              embedding(b, b.input("cube", {DType::f32, {3, 3, 3}}), index);
            }),
            "embedding %embedding: w is f32[3,3,3], index is i64[4,2]; w must have 2 dimensions, not 3");
}

}  // namespace
}  // namespace plimsoll::program

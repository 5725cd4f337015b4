#include "plimsoll/program/ops/matmul.h"

#include <gtest/gtest.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

void check_product(const Shape& a, const Shape& b, MatmulOptions options, const std::string& type) {
  check_op(
      {.operands = {{a}, {b}},
       .build = [=](Builder& builder, const std::vector<Value>& x) { return matmul(builder, x[0], x[1], options); },
       .type = type});
}

TEST(Matmul, ValuesAndGradientsInEveryTransposition) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      check_product(ta ? Shape{2, 17, 3} : Shape{2, 3, 17}, tb ? Shape{2, 5, 17} : Shape{2, 17, 5}, {ta, tb},
                    "f32[2,3,5]");
    }
  }
}

TEST(Matmul, BatchesBroadcastAndTheirGradientsAreSummed) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Shape rank2 = tb ? Shape{5, 7} : Shape{7, 5};
      check_product(ta ? Shape{3, 7, 2} : Shape{3, 2, 7}, rank2, {ta, tb}, "f32[3,2,5]");
      check_product(rank2, ta ? Shape{3, 1, 2, 5} : Shape{3, 1, 5, 2}, {tb, ta}, "f32[3,1,7,2]");
      const Shape stretched = ta ? Shape{4, 1, 7, 2} : Shape{4, 1, 2, 7};
      check_product(stretched, tb ? Shape{3, 5, 7} : Shape{3, 7, 5}, {ta, tb}, "f32[4,3,2,5]");
    }
  }
}

TEST(Matmul, OddShapes) {
  check_product({1, 1}, {1, 1}, {}, "f32[1,1]");
  check_product({1, 257}, {257, 3}, {}, "f32[1,3]");
  check_product({31, 1}, {1, 17}, {}, "f32[31,17]");
}

TEST(Matmul, MultipliesByHand) {
  check_op({.operands = {{.shape = {2, 2}, .values = {1, 2, 3, 4}}, {.shape = {2, 1}, .values = {5, 6}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return matmul(b, x[0], x[1]); },
            .expected = {17, 39}});
}

TEST(Matmul, EmptyDimensionsGiveZerosOrNothing) {
  const auto build = [](Builder& b, const std::vector<Value>& x) { return matmul(b, x[0], x[1]); };
  check_op({.operands = {{{2, 0}}, {{0, 1}}}, .build = build, .expected = {0, 0}});
  check_op({.operands = {{{0, 3}}, {{3, 2}}}, .build = build, .type = "f32[0,2]"});
  check_op({.operands = {{{0, 2, 3}}, {{3, 2}}}, .build = build, .type = "f32[0,2,2]"});
}

TEST(Matmul, ReadsViews) {
  check_op({.operands = {{{5, 3}}, {{5, 7}}}, .build = [](Builder& b, const std::vector<Value>& x) {
              return matmul(b, transpose(b, x[0], {1, 0}), x[1]);
            }});
}

// P3 of the reference programs.
TEST(Matmul, ProductOfUnfittingShapesNamesBothAndTheRule) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {13, 19, 29}});
  EXPECT_EQ(b.type(matmul(b, x, x, {.transpose_b = true})).text(), "f32[13,19,19]");
  EXPECT_EQ(error_of([&] { matmul(b, x, x); }),
            "matmul %matmul: a is f32[13,19,29], b is f32[13,19,29]; the columns of a (29) must be "
            "as many as the rows of b (19)");
}

TEST(Matmul, RejectsBatchesThatDoNotBroadcast) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 3, 3}});
  const Value z = b.input("z", {DType::f32, {2, 3, 3}});
  EXPECT_EQ(b.type(matmul(b, x, x)).text(), "f32[batch,3,3]");
  EXPECT_EQ(error_of([&] { matmul(b, x, z); }),
            "matmul %matmul: a is f32[batch,3,3], b is f32[2,3,3]; the batch dimensions, before the last two, must be "
            "equal or 1, from the last on");
  EXPECT_EQ(error_of([&] { matmul_sum(b, z, z, {3}); }),
            "matmul_sum %matmul_sum: a is f32[2,3,3], b is f32[2,3,3]; batch [3] must broadcast to the product's, [2]");
}

TEST(Matmul, CountsFlopsSymbolically) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 29}});
  const Value w = b.parameter("w", {DType::f32, {10, 29}});
  matmul(b, x, w, {.transpose_b = true});
  EXPECT_EQ(flops(b.program(), b.program().ops[0]).text(), "580*batch");
  EXPECT_EQ(traffic_bytes(b.program(), b.program().ops[0]).text(), "156*batch+1160");
}

// The gradient of a broadcast weight is made in its own shape, never once for each batch.
TEST(Matmul, GradientOfABroadcastOperandHasNoBatches) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 19, 29}});
  const Value w = b.parameter("w", {DType::f32, {29, 10}});
  const Value y = matmul(b, x, w);
  const Root root{y};
  gradients(b, std::span(&root, 1), std::span(&w, 1));
  EXPECT_EQ(b.program().ops.back().def->name, "matmul_sum");
  EXPECT_EQ(flops(b.program(), b.program().ops.back()), flops(b.program(), b.program().ops[0]));
}

Value linear_of(Builder& b, const std::vector<Value>& x) {
  return linear(b, x[0], x[1], x.size() > 2 ? x[2] : Value{});
}

TEST(Linear, ValuesAndGradients) {
  check_op({.operands = {{{17, 29}}, {{10, 29}}, {{10}}}, .build = linear_of, .type = "f32[17,10]"});
  check_op({.operands = {{{2, 3, 7}}, {{5, 7}}, {{5}}}, .build = linear_of, .type = "f32[2,3,5]"});
  check_op({.operands = {{{2, 3, 7}}, {{1, 7}}}, .build = linear_of, .type = "f32[2,3,1]"});
  check_op({.operands = {{{257}}, {{3, 257}}, {{3}}}, .build = linear_of, .type = "f32[3]"});
  check_op({.operands = {{{0, 2}}, {{3, 2}}, {{3}}}, .build = linear_of, .type = "f32[0,3]"});
}

TEST(Linear, AddsByHand) {
  check_op({.operands = {{.shape = {1, 2}, .values = {1, 2}},
                         {.shape = {2, 2}, .values = {3, 4, 5, 6}},
                         {.shape = {2}, .values = {10, 20}}},
            .build = linear_of,
            .expected = {21, 37}});
}

TEST(Linear, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 28}});
  const Value w = b.parameter("w", {DType::f32, {10, 29}});
  EXPECT_EQ(error_of([&] { linear(b, x, w); }),
            "linear %linear: x is f32[batch,28], w is f32[10,29]; the last dimension of x (28) must be that of w (29)");
  EXPECT_EQ(error_of([&] { linear(b, w, w, x); }),
            "linear %linear: x is f32[10,29], w is f32[10,29], bias is f32[batch,28]; bias must have w's dtype and as "
            "many elements as w has rows");
  const Value whole = b.input("whole", {DType::i32, {2, 2}});
  for (const char* op : {"linear", "linear_backward_input", "linear_backward_weights"}) {
    EXPECT_NE(error_of([&] { b.emit(op, {whole, whole}); }).find("must be floating"), std::string::npos) << op;
  }
}

TEST(Linear, GradientOfTheBiasAloneMakesNoOtherGradient) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {5, 3}});
  const Value bias = b.parameter("bias", {DType::f32, {2}});
  const Root root{linear(b, x, b.input("w", {DType::f32, {2, 3}}), bias)};
  gradients(b, std::span(&root, 1), std::span(&bias, 1));
  for (const Op& op : b.program().ops) EXPECT_NE(op.def->name, "linear_backward_weights");
}

TEST(Linear, BackwardOfTheWeightsComesBeforeThatOfTheInput) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {1, 3}});
  const std::vector<Value> wanted = {b.parameter("w", {DType::f32, {3, 3}}), b.parameter("bias", {DType::f32, {3}}), x};
  const Root root{linear(b, x, wanted[0], wanted[1])};
  gradients(b, std::span(&root, 1), wanted);
  const auto& ops = b.program().ops;
  EXPECT_EQ(ops[ops.size() - 2].def->name, "linear_backward_weights");
  EXPECT_EQ(ops.back().def->name, "linear_backward_input");
  EXPECT_EQ(b.program()[ops[ops.size() - 2].outputs[1]].name, "grad.bias");
}

}  // namespace
}  // namespace plimsoll::program

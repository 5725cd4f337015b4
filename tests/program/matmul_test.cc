#include "plimsoll/program/ops/matmul.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

TEST(Matmul, ValuesAndGradientsInEveryTransposition) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Shape a = ta ? Shape{2, 17, 3} : Shape{2, 3, 17};
      const Shape b = tb ? Shape{2, 5, 17} : Shape{2, 17, 5};
      check_op({.operands = {{a}, {b}},
                .build =
                    [=](Builder& builder, const std::vector<Value>& x) {
                      return matmul(builder, x[0], x[1], {ta, tb});
                    },
                .type = "f32[2,3,5]"});
    }
  }
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
}

// P3 of the reference programs.
TEST(Matmul, ProductOfUnfittingShapesNamesBothAndTheRule) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {13, 19, 29}});
  EXPECT_EQ(b.type(matmul(b, x, x, {.transpose_b = true})).text(), "f32[13,19,19]");
  try {
    matmul(b, x, x);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "matmul %matmul: a is f32[13,19,29], b is f32[13,19,29]; the columns of a (29) must be "
                 "as many as the rows of b (19)");
  }
}

TEST(Matmul, CountsFlopsSymbolically) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 29}});
  const Value w = b.parameter("w", {DType::f32, {10, 29}});
  matmul(b, x, w, {.transpose_b = true});
  EXPECT_EQ(flops(b.program(), b.program().ops[0]).text(), "580*batch");
  EXPECT_EQ(traffic_bytes(b.program(), b.program().ops[0]).text(), "156*batch+1160");
}

}  // namespace
}  // namespace plimsoll::program

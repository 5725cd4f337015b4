#include "plimsoll/program/ops/shape.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

TEST(ShapeOps, ReshapeAndTransposeAreViewsWithGradients) {
  check_op({.operands = {{{3, 17, 2}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return reshape(b, x[0], {51, 2});
                },
            .type = "f32[51,2]"});
  check_op({.operands = {{{3, 17, 2}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return transpose(b, x[0], {2, 0, 1});
                },
            .type = "f32[2,3,17]"});
}

TEST(ShapeOps, ChainsOfViewsPointToOneStorage) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 6}});
  const Value y = transpose(b, reshape(b, x, {Dim::symbol("batch"), 2, 3}), {0, 2, 1});
  EXPECT_EQ(b.program()[y].storage, x);
  EXPECT_EQ(b.program()[y].view->strides.text(), "[6,1,3]");
  EXPECT_EQ(b.program()[y].category, Category::input);
}

TEST(ShapeOps, ReshapeOfATransposeCopies) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 5}});
  const Value y = reshape(b, transpose(b, x, {1, 0}), {15});
  EXPECT_EQ(b.program()[y].storage, y);
  EXPECT_FALSE(b.program()[y].view);
  check_op({.operands = {{{3, 5}}}, .build = [](Builder& builder, const std::vector<Value>& in) {
              return relu(builder, reshape(builder, transpose(builder, in[0], {1, 0}), {15}));
            }});
}

TEST(ShapeOps, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 6}});
  EXPECT_THROW(reshape(b, x, {Dim::symbol("batch"), 5}), ArgumentError);
  EXPECT_THROW(reshape(b, x, {-1, -6, Dim::symbol("batch")}), ArgumentError);
  EXPECT_THROW(transpose(b, x, {0, 0}), ArgumentError);
  EXPECT_THROW(transpose(b, x, {0, 2}), ArgumentError);
  EXPECT_THROW(transpose(b, x, {0}), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::program

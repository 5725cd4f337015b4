#include "plimsoll/program/ops/shape.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/verify.h"
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

TEST(ShapeOps, ReshapeOfAnyLayoutThatAllowsItIsAView) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 4, 6}});
  const Value transposed = transpose(b, x, {0, 2, 1});  // strides [24,1,6]
  const auto strides = [&](const Dims& shape) {
    const auto view = b.program()[reshape(b, transposed, shape)].view;
    return view ? view->strides.text() : "copy";
  };
  EXPECT_EQ(strides({Dim::symbol("batch"), 2, 3, 4}), "[24,3,1,6]");
  EXPECT_EQ(strides({Dim::symbol("batch"), 1, 6, 2, 1, 2}), "[24,6,1,12,12,6]");
  EXPECT_EQ(strides({Dim::symbol("batch"), 24}), "copy");
  EXPECT_EQ(strides({Dim::symbol("batch") * 6, 4}), "copy");
}

TEST(ShapeOps, ReshapeFindsTheSizeThatIsLeft) {
  Builder b;
  const Dim batch = Dim::symbol("batch");
  const Value x = b.input("x", {DType::f32, {batch, 4, 6}});
  EXPECT_EQ(b.type(reshape(b, x, {batch, -1})).text(), "f32[batch,24]");
  EXPECT_EQ(b.type(reshape(b, x, {-1, 3})).text(), "f32[8*batch,3]");
  EXPECT_EQ(
      error_of([&] {
        reshape(b, x, {-1, 7, batch});
      }),
      "reshape %reshape: x is f32[batch,4,6]; shape [-1,7,batch] leaves no whole size for -1: x has 24*batch elements");
  EXPECT_EQ(error_of([&] {
              reshape(b, x, {-1, -1});
            }),
            "reshape %reshape: x is f32[batch,4,6]; shape [-1,-1] has more than one -1");
}

TEST(ShapeOps, ExpandShowsElementsManyTimes) {
  check_op({.operands = {{{3, 1}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return expand(b, x[0], {2, 3, 5});
                },
            .type = "f32[2,3,5]"});
  check_op({.operands = {{{}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return relu(b, expand(b, x[0], {31})); },
            .type = "f32[31]"});
  check_op({.operands = {{{1, 17}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return reshape(b, expand(b, x[0], {3, 17}), {51});
                },
            .type = "f32[51]"});
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 1}});
  const Value y = expand(b, x, {Dim::symbol("batch"), 3, 5});
  EXPECT_EQ(b.program()[y].storage, x);
  EXPECT_EQ(b.program()[y].view->strides.text(), "[0,1,0]");
  EXPECT_EQ(
      error_of([&] {
        expand(b, x, {4, 5});
      }),
      "expand %expand: x is f32[3,1]; x must broadcast to shape [4,5]: from the last dimension, sizes equal or 1");
}

TEST(ShapeOps, SqueezeUnsqueezeAndFlattenAreReshapes) {
  Builder b;
  const Dim batch = Dim::symbol("batch");
  const Value x = b.input("x", {DType::f32, {batch, 1, 3, 1}});
  EXPECT_EQ(b.type(squeeze(b, x)).text(), "f32[batch,3]");
  EXPECT_EQ(b.type(squeeze(b, x, {-1})).text(), "f32[batch,1,3]");
  EXPECT_EQ(b.type(unsqueeze(b, x, {0, -1})).text(), "f32[1,batch,1,3,1,1]");
  EXPECT_EQ(b.type(flatten(b, x)).text(), "f32[batch,3]");
  EXPECT_EQ(b.type(flatten(b, x, 3)).text(), "f32[3*batch,1]");
  EXPECT_EQ(b.type(flatten(b, x, 0)).text(), "f32[1,3*batch]");
  EXPECT_EQ(b.program()[flatten(b, x)].storage, x);
  EXPECT_EQ(error_of([&] { squeeze(b, x, {2}); }),
            "squeeze: %x is f32[batch,1,3,1]; dimension 2 must be 1 to be dropped");
  EXPECT_EQ(error_of([&] { unsqueeze(b, x, {5}); }), "unsqueeze: axes has 5, expected -5 to 4");
  EXPECT_EQ(error_of([&] { unsqueeze(b, x, {0, -6}); }), "unsqueeze: axes [0,-6] names a place twice");
  EXPECT_EQ(error_of([&] { flatten(b, x, 5); }), "flatten: axis is 5, expected -4 to 4");
}

TEST(ShapeOps, ViewsStandWhateverSizesAreBound) {
  Builder b;
  const Dim batch = Dim::symbol("batch");
  const Value x = b.input("x", {DType::f32, {batch, 3, batch}});
  const Value transposed = transpose(b, x, {2, 1, 0});
  reshape(b, transposed, {batch * 3, batch});
  expand(b, reshape(b, transposed, {batch, 1, 3, batch}), {batch, 2, 3, batch});
  for (const int64_t size : {0, 1, 2, 5}) EXPECT_NO_THROW(verify_bound(bind(b.program(), {{"batch", size}}))) << size;
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

#include "plimsoll/program/ops/slice.h"

#include <gtest/gtest.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/verify.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

void check_slice(const Shape& shape, const std::vector<Range>& ranges, const char* type) {
  check_op({.operands = {{shape}},
            .build = [&](Builder& b, const std::vector<Value>& x) { return slice(b, x[0], ranges); },
            .type = type});
}

TEST(SliceOps, SlicesAreViewsWithGradients) {
  check_slice({257}, {{.start = 3, .end = 250}}, "f32[247]");
  check_slice({3, 17}, {{.axis = 1, .start = 1, .step = 3}}, "f32[3,6]");
  check_slice({3, 17}, {{.axis = -1, .start = -1, .step = -4}}, "f32[3,5]");
  check_slice({2, 3, 5}, {{.axis = 0, .start = 1}, {.axis = 2, .start = -2, .end = 0, .step = -1}}, "f32[1,3,3]");
  check_slice({31}, {{.start = 20, .end = 10}}, "f32[0]");
  check_slice({31}, {{.start = -100, .end = 100}}, "f32[31]");
}

TEST(SliceOps, SlicesTakeWhatPythonTakes) {
  const Operand x = {.shape = {6}, .values = {0, 1, 2, 3, 4, 5}};
  const std::vector<std::pair<Range, std::vector<double>>> cases = {{{0, 1, 4, 2}, {1, 3}},
                                                                    {{0, -2, {}, 1}, {4, 5}},
                                                                    {{0, -1, {}, -1}, {5, 4, 3, 2, 1, 0}},
                                                                    {{0, 4, 1, -2}, {4, 2}},
                                                                    {{0, 9, -6, -2}, {5, 3, 1}}};
  for (const auto& [range, expected] : cases) {
    const Range one = range;
    check_op({.operands = {x},
              .build = [one](Builder& b, const std::vector<Value>& in) { return slice(b, in[0], one); },
              .expected = expected});
  }
}

TEST(SliceOps, SlicesOfSlicesPointToOneStorage) {
  Builder b;
  const Dim seq = Dim::symbol("seq");
  const Value x = b.input("x", {DType::f32, {seq, 12}});
  const Value y = slice(b, slice(b, x, {.axis = 0, .start = 1}), {.axis = 1, .start = 2, .end = 8, .step = 3});
  EXPECT_EQ(b.type(y).text(), "f32[seq-1,2]");
  EXPECT_EQ(b.program()[y].storage, x);
  EXPECT_EQ(b.program()[y].view->offset.text(), "14");
  EXPECT_EQ(b.program()[y].view->strides.text(), "[12,3]");
  EXPECT_NO_THROW(verify_bound(bind(b.program(), {{"seq", 7}})));
}

TEST(SliceOps, PiecesAreViewsAndTheirGradientIsOneConcat) {
  check_op({.operands = {{{3, 17}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return split(b, x[0], 1, {1, 13, 3});
                },
            .type = "f32[3,1]"});
  check_op({.operands = {{{6, 5}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return split(b, x[0], -2, 3); },
            .type = "f32[2,5]"});
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 12}});
  const std::vector<Value> pieces = split(b, x, 1, 3);
  EXPECT_EQ(b.program()[pieces[2]].storage, x);
  EXPECT_EQ(b.program()[pieces[2]].view->offset.text(), "8");
  const Value y = relu(b, pieces[1]);
  const Root root{y, b.input("dy", b.type(y))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  EXPECT_EQ(b.program().ops.back().def->name, "concat");
}

// The queries, keys and values of attention, out of one product, without a copy.
TEST(SliceOps, HeadsOfAPieceAreAView) {
  Builder b;
  const Dim batch = Dim::symbol("batch");
  const Dim seq = Dim::symbol("seq");
  const Value x = b.input("x", {DType::f32, {batch, seq, 3 * 64}});
  const Value key = split(b, x, 2, 3)[1];
  const Value heads = transpose(b, reshape(b, key, {batch, seq, 4, 16}), {0, 2, 1, 3});
  EXPECT_EQ(b.program()[heads].storage, x);
  EXPECT_EQ(b.program()[heads].view->offset.text(), "64");
  EXPECT_EQ(b.program()[heads].view->strides.text(), "[192*seq,16,192,1]");
}

TEST(SliceOps, ConcatPutsOneAfterAnother) {
  for (const int axis : {0, 1, -1}) {
    check_op({.operands = {{{2, 3, 5}}, {{2, 3, 5}}, {{2, 3, 5}}},
              .build = [axis](Builder& b, const std::vector<Value>& x) { return concat(b, x, axis); }});
  }
  check_op({.operands = {{{3, 1}}, {{3, 17}}, {{3, 0}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return concat(b, x, 1); },
            .type = "f32[3,18]"});
  check_op({.operands = {{{17, 3}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return concat(b, std::vector{transpose(b, x[0], {1, 0}), transpose(b, x[0], {1, 0})}, 0);
                },
            .type = "f32[6,17]"});
}

TEST(SliceOps, TheGradientsOfConcatAreViewsOfDy) {
  Builder b;
  const std::vector<Value> xs = {b.input("a", {DType::f32, {3, 2}}), b.input("c", {DType::f32, {3, 5}})};
  const Value y = concat(b, xs, 1);
  const Root root{y, b.input("dy", b.type(y))};
  for (const Value dx : gradients(b, std::span(&root, 1), xs)) EXPECT_EQ(b.program()[dx].storage, root.seed);
}

TEST(SliceOps, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 17}});
  EXPECT_EQ(error_of([&] { slice(b, x, {.axis = 2}); }), "slice: %x is f32[3,17], axis is 2, expected -2 to 1");
  EXPECT_EQ(error_of([&] { slice(b, x, {.step = 0}); }), "slice: the step in dimension 0 is 0");
  EXPECT_EQ(error_of([&] {
              b.emit("slice", {x}, {{"starts", Dims{0, 10}}, {"sizes", Dims{3, 8}}, {"steps", Dims{1, 1}}});
            }),
            "slice %slice: x is f32[3,17]; the slice goes from 10 to 17 in dimension 1, which has 17");
  EXPECT_EQ(error_of([&] {
              b.emit("slice", {x}, {{"starts", Dims{0}}, {"sizes", Dims{3, 8}}, {"steps", Dims{1, 1}}});
            }),
            "slice %slice: x is f32[3,17]; starts is [0], expected one number for each of 2 dimensions");
  EXPECT_EQ(error_of([&] { split(b, x, 1, 3); }),
            "split %split: x is f32[3,17]; 3 pieces of dimension 1 make 15, expected 17");
  EXPECT_EQ(error_of([&] {
              split(b, x, 1, {8, 8});
            }),
            "split %split: x is f32[3,17]; 2 pieces of dimension 1 make 16, expected 17");
  EXPECT_EQ(
      error_of([&] {
        concat(b, std::vector{x, b.input("z", {DType::f32, {4, 17}})}, 1);
      }),
      "concat %concat: xs is f32[3,17], xs is f32[4,17]; operand 1 is f32[4,17]: all must have one dtype and, but "
      "for dimension 1, one shape");
}

TEST(SliceOps, ASliceThatASizeIsTooSmallForIsToldWhenBound) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch")}});
  slice(b, x, {.end = 8});
  EXPECT_NE(error_of([&] {
              verify_bound(bind(b.program(), {{"batch", 4}}));
            }).find("the slice goes from 0 to 7 in dimension 0, which has 4"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::program

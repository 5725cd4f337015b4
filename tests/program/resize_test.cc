#include "plimsoll/program/ops/resize.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

TEST(Resize, ValuesAndGradientsOnOddShapes) {
  struct Case {
    Shape x;
    Dims size;
    std::string type;
  };
  const std::vector<Case> cases = {
      {{1, 1, 1}, {3}, "f32[1,1,3]"},         {{2, 3, 17}, {31}, "f32[2,3,31]"},
      {{1, 1, 257}, {1}, "f32[1,1,1]"},       {{2, 3, 5, 3}, {7}, "f32[2,3,7,7]"},
      {{1, 2, 7, 6}, {3, 9}, "f32[1,2,3,9]"}, {{1, 2, 3, 2, 4}, {5, 3, 4}, "f32[1,2,5,3,4]"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.x.text());
    for (const ResizeOptions& how : {ResizeOptions{}, ResizeOptions{.mode = ResizeMode::linear},
                                     ResizeOptions{.mode = ResizeMode::linear, .align_corners = true}}) {
      ResizeOptions options = how;
      options.size = c.size;
      check_op({.operands = {{c.x}},
                .build = [&](Builder& b, const std::vector<Value>& x) { return resize(b, x[0], options); },
                .type = c.type});
    }
  }
}

void expect_resized(const ResizeOptions& options, const std::vector<double>& expected) {
  check_op({.operands = {{.shape = {1, 1, 3}, .values = {0, 3, 12}}},
            .build = [&](Builder& b, const std::vector<Value>& x) { return resize(b, x[0], options); },
            .expected = expected});
}

TEST(Resize, ByHand) {
  expect_resized({.scale = 2}, {0, 0, 3, 3, 12, 12});
  expect_resized({.size = {2}}, {0, 3});
  expect_resized({.scale = 2, .mode = ResizeMode::linear}, {0, 0.75, 2.25, 5.25, 9.75, 12});
  expect_resized({.size = {5}, .mode = ResizeMode::linear, .align_corners = true}, {0, 1.5, 3, 7.5, 12});
  expect_resized({.scale = 1.5}, {0, 0, 3, 12});  // samples 2/3 apart, though 3/4 would fill the four
}

TEST(Resize, ReadsViews) {
  check_op({.operands = {{{1, 5, 3, 2}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return resize(b, transpose(b, x[0], {0, 3, 1, 2}), {.scale = 2, .mode = ResizeMode::linear});
                },
            .type = "f32[1,2,10,6]"});
}

TEST(Resize, ScalesSymbolsByWholeNumbersAndParts) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {1, 2, Dim::symbol("h")}});
  EXPECT_EQ(b.type(resize(b, x, {.scale = 2})).text(), "f32[1,2,2*h]");
  EXPECT_EQ(b.type(resize(b, x, {.scale = 0.5})).text(), "f32[1,2,h//2]");
  EXPECT_THROW(resize(b, x, {.scale = 1.5}), ArgumentError);
}

TEST(Resize, BackwardReadsOnlyTheGradient) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {1, 2, 3}});
  const Value y = resize(b, x, {.size = {5}});
  const Root root{y, b.input("dy", b.type(y))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  EXPECT_EQ(b.program().ops.back().inputs, (std::vector{root.seed}));
}

TEST(Resize, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {1, 2, 3}});
  EXPECT_THROW(resize(b, x, {}), ArgumentError);
  EXPECT_THROW(resize(b, x, {.size = {2, 2}}), ArgumentError);
  EXPECT_THROW(resize(b, x, {.size = {0}}), ArgumentError);
  EXPECT_THROW(resize(b, x, {.scale = 0.3}), ArgumentError);
  EXPECT_THROW(b.emit("resize", {x}, {{"size", Dims{4}}, {"mode", "cubic"}}), ArgumentError);
  try {
    resize(b, x, {.size = {4}, .align_corners = true});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "resize %resize: x is f32[1,2,3]; align_corners is for mode=linear");
  }
}

}  // namespace
}  // namespace plimsoll::program

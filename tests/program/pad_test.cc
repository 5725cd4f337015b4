#include "plimsoll/program/ops/pad.h"

#include <gtest/gtest.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

void check_pad(const Operand& x, const PadOptions& options, const char* type,
               const std::vector<double>& expected = {}) {
  check_op({.operands = {x},
            .build = [&](Builder& b, const std::vector<Value>& in) { return pad(b, in[0], options); },
            .type = type,
            .expected = expected});
}

TEST(PadOps, PadsEveryDimensionInEveryMode) {
  for (const char* mode : {"constant", "reflect", "edge"}) {
    check_pad({{31}}, {.before = {5}, .after = {30}, .mode = mode}, "f32[66]");
    check_pad({{3, 17}}, {.before = {2, 0}, .after = {1, 3}, .mode = mode, .value = 7}, "f32[6,20]");
    check_pad({{2, 3, 5}}, {.before = {1, 1, 1}, .after = {0, 2, 4}, .mode = mode}, "f32[3,6,10]");
  }
}

TEST(PadOps, ModesDifferBeyondTheEdges) {
  const Operand x = {.shape = {3}, .values = {1, 2, 3}};
  check_pad(x, {.before = {2}, .after = {1}, .value = 9}, "f32[6]", {9, 9, 1, 2, 3, 9});
  check_pad(x, {.before = {2}, .after = {1}, .mode = "reflect"}, "f32[6]", {3, 2, 1, 2, 3, 2});
  check_pad(x, {.before = {2}, .after = {1}, .mode = "edge"}, "f32[6]", {1, 1, 1, 2, 3, 3});
}

TEST(PadOps, TheGradientOfPaddingWithAConstantIsAView) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 5}});
  const Value y = pad(b, x, {.before = {0, 2}, .after = {0, 1}});
  const Root root{y, b.input("dy", b.type(y))};
  EXPECT_EQ(b.program()[gradients(b, std::span(&root, 1), std::span(&x, 1))[0]].storage, root.seed);
}

TEST(PadOps, TilesRepeatTheWhole) {
  check_op({.operands = {{.shape = {2}, .values = {1, 2}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return tile(b, x[0], {3}); },
            .expected = {1, 2, 1, 2, 1, 2}});
  check_op({.operands = {{{2, 3, 5}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return tile(b, x[0], {3, 1, 2});
                },
            .type = "f32[6,3,10]"});
  check_op({.operands = {{{5, 3}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return tile(b, transpose(b, x[0], {1, 0}), {1, 2});
                },
            .type = "f32[3,10]"});
}

TEST(PadOps, RejectsWhatMakesNoSense) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 17}});
  EXPECT_EQ(error_of([&] {
              pad(b, x, {.before = {1}, .after = {1, 1}});
            }),
            "pad %pad: x is f32[3,17]; before is [1], expected one number for each of 2 dimensions");
  EXPECT_EQ(error_of([&] {
              pad(b, x, {.before = {-1, 0}, .after = {0, 0}});
            }),
            "pad %pad: x is f32[3,17]; padding must not be negative");
  EXPECT_EQ(error_of([&] {
              pad(b, x, {.before = {3, 0}, .after = {0, 0}, .mode = "reflect"});
            }),
            "pad %pad: x is f32[3,17]; reflect padding of 3 in dimension 0 needs a larger x");
  EXPECT_EQ(error_of([&] {
              pad(b, x, {.before = {3, 0}, .after = {0, 0}, .mode = "mirror"});
            }),
            "pad %pad: x is f32[3,17]; mode must be constant, reflect or edge");
  EXPECT_EQ(error_of([&] { tile(b, x, {2}); }),
            "tile %tile: x is f32[3,17]; repeats is [2], expected one number for each of 2 dimensions");
}

}  // namespace
}  // namespace plimsoll::program

#include "plimsoll/program/ops/along_axis.h"

#include <gtest/gtest.h>

#include "plimsoll/program/autodiff.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

TEST(AlongAxis, ArgmaxFindsTheFirstOfEquals) {
  const Operand x = {.shape = {2, 3}, .values = {1, 5, 5, 7, 2, 2}};
  check_op({.operands = {x},
            .build = [](Builder& b, const std::vector<Value>& in) { return argmax(b, in[0], 1); },
            .type = "i64[2]",
            .expected = {1, 0}});
  check_op({.operands = {x},
            .build = [](Builder& b, const std::vector<Value>& in) { return argmin(b, in[0], -1, true); },
            .type = "i64[2,1]",
            .expected = {0, 1}});
  check_op({.operands = {x},
            .build = [](Builder& b, const std::vector<Value>& in) { return argmax(b, in[0], 0); },
            .type = "i64[3]",
            .expected = {1, 0, 0}});
}

TEST(AlongAxis, CumsumGoesEitherWay) {
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      for (const Shape& shape : kOddShapes) {
        check_op({.operands = {{shape}}, .build = [=](Builder& b, const std::vector<Value>& x) {
                    return cumsum(b, x[0], -1, {exclusive, reverse});
                  }});
      }
    }
  }
  check_op({.operands = {{.shape = {3}, .dtype = DType::i64, .values = {1, 2, 3}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return cumsum(b, x[0], 0, {.exclusive = true}); },
            .expected = {0, 1, 3}});
  check_op({.operands = {{{3, 0}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return cumsum(b, x[0], 1); },
            .type = "f32[3,0]"});
  check_op({.operands = {{.shape = {2, 2}, .values = {1, 2, 3, 4}}},
            .build = [](Builder& b, const std::vector<Value>& x) { return cumsum(b, x[0], 0, {.reverse = true}); },
            .expected = {4, 6, 3, 4}});
}

TEST(AlongAxis, TopKGivesValuesInOrderAndTheirPlaces) {
  const auto top = [](Dim k, int axis, bool largest) {
    return [=](Builder& b, const std::vector<Value>& x) {
      const TopK found = top_k(b, x[0], k, axis, largest);
      return std::vector{found.values, found.indices};
    };
  };
  check_op({.operands = {{{3, 17}}}, .build = top(5, 1, true), .type = "f32[3,5]"});
  check_op({.operands = {{{3, 17}}}, .build = top(2, 0, false), .type = "f32[2,17]"});
  check_op({.operands = {{{257}}}, .build = top(257, -1, true), .type = "f32[257]"});
}

TEST(AlongAxis, TopKTakesTheFirstOfEqualsFirst) {
  const Operand x = {.shape = {5}, .values = {3, 9, 1, 9, 4}};
  check_op({.operands = {x},
            .build = [](Builder& b, const std::vector<Value>& in) { return top_k(b, in[0], 3).values; },
            .expected = {9, 9, 4},
            .differentiable = false});
  check_op({.operands = {x},
            .build = [](Builder& b, const std::vector<Value>& in) { return top_k(b, in[0], 3).indices; },
            .expected = {1, 3, 4}});
  check_op({.operands = {x},
            .build = [](Builder& b, const std::vector<Value>& in) { return top_k(b, in[0], 2, 0, false).values; },
            .expected = {1, 3}});
}

TEST(AlongAxis, TheGradientOfTopKReadsOnlyItsIndices) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 17}});
  const TopK top = top_k(b, x, 5);
  const Root root{top.values, b.input("dy", b.type(top.values))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  EXPECT_EQ(b.program().ops.back().inputs, (std::vector{root.seed, top.indices}));
}

TEST(AlongAxis, RejectsWhatMakesNoSense) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 17}});
  EXPECT_EQ(error_of([&] { cumsum(b, x, 2); }), "cumsum %cumsum: x is f32[3,17]; axis is 2, expected -2 to 1");
  EXPECT_EQ(error_of([&] { top_k(b, x, 18); }),
            "top_k %top_k: x is f32[3,17]; k is 18, expected 0 to 17, the size of dimension 1");
  EXPECT_EQ(error_of([&] {
              argmax(b, b.input("none", {DType::f32, {3, 0}}), 1);
            }),
            "argmax %argmax: x is f32[3,0]; there is no extreme of no elements");
}

}  // namespace
}  // namespace plimsoll::program

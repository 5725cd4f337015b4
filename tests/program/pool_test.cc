#include "plimsoll/program/ops/pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

struct PoolCase {
  Shape x;
  PoolOptions options;
  std::string type;
};

const std::vector<PoolCase> kPoolCases = {
    {{1, 1, 1}, {.kernel = {1}}, "f32[1,1,1]"},
    {{2, 3, 17}, {.kernel = {3}}, "f32[2,3,5]"},
    {{2, 3, 17}, {.kernel = {3}, .ceil_mode = true}, "f32[2,3,6]"},
    {{1, 1, 257}, {.kernel = {31}, .stride = {17}, .padding = {3, 8}}, "f32[1,1,14]"},
    {{2, 3, 7, 5}, {.kernel = {3}, .stride = {2}, .padding = {1}}, "f32[2,3,4,3]"},
    {{2, 3, 7, 6}, {.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0, 0, 1}, .ceil_mode = true}, "f32[2,3,4,2]"},
    {{1, 2, 9, 8}, {.kernel = {2, 3}, .stride = {1}, .padding = {1}, .dilation = {3, 2}}, "f32[1,2,8,6]"},
    {{1, 2, 3, 5, 4}, {.kernel = {2, 3, 1}, .stride = {1, 2, 2}, .padding = {1, 1, 0}}, "f32[1,2,4,3,2]"},
};

TEST(Pool, ValuesAndGradientsOnOddShapes) {
  for (PoolCase c : kPoolCases) {
    SCOPED_TRACE(c.x.text());
    check_op({.operands = {{c.x}},
              .build = [&](Builder& b, const std::vector<Value>& x) { return max_pool(b, x[0], c.options); },
              .type = c.type});
    for (const bool include : {true, false}) {
      c.options.count_include_pad = include;
      check_op({.operands = {{c.x}},
                .build = [&](Builder& b, const std::vector<Value>& x) { return avg_pool(b, x[0], c.options); },
                .type = c.type});
    }
  }
}

TEST(Pool, AdaptiveValuesAndGradientsOnOddShapes) {
  struct Case {
    Shape x;
    Dims size;
    std::string type;
  };
  const std::vector<Case> cases = {{{1, 1, 1}, {3}, "f32[1,1,3]"},
                                   {{2, 3, 17}, {5}, "f32[2,3,5]"},
                                   {{2, 3, 7, 5}, {1}, "f32[2,3,1,1]"},
                                   {{1, 2, 7, 5}, {3, 7}, "f32[1,2,3,7]"},
                                   {{1, 2, 3, 5, 4}, {2, 3, 4}, "f32[1,2,2,3,4]"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.x.text());
    for (const auto op : {adaptive_max_pool, adaptive_avg_pool}) {
      check_op({.operands = {{c.x}},
                .build = [&](Builder& b, const std::vector<Value>& x) { return op(b, x[0], c.size); },
                .type = c.type});
    }
  }
}

TEST(Pool, ByHand) {
  const Operand x{.shape = {1, 1, 5}, .values = {1, 5, 5, -1, -3}};
  const auto max = [](Builder& b, const std::vector<Value>& in) {
    return max_pool(b, in[0], {.kernel = {2}, .padding = {0, 1}});
  };
  check_op({.operands = {x}, .build = max, .expected = {5, 5, -3}, .differentiable = false});
  const auto average = [](bool include) {
    return [include](Builder& b, const std::vector<Value>& in) {
      return avg_pool(b, in[0], {.kernel = {2}, .padding = {0, 1}, .count_include_pad = include});
    };
  };
  check_op({.operands = {x}, .build = average(true), .expected = {3, 2, -1.5}});
  check_op({.operands = {x}, .build = average(false), .expected = {3, 2, -3}});
}

TEST(Pool, MaximaKeepNaN) {
  Builder b;
  b.output(max_pool(b, b.input("x", {DType::f32, {1, 1, 4}}), {.kernel = {2}}));
  Arrays<double> given;
  given["x"] = Array<double>(TensorSpec{DType::f32, {1, 1, 4}});
  given["x"].reals = {NAN, 1, -INFINITY, -INFINITY};
  const auto y = evaluate(b.program(), given).outputs.at("max_pool").reals;
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], -INFINITY);
}

TEST(Pool, GlobalPoolsReadViews) {
  check_op({.operands = {{{2, 3, 5, 3}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  const Value transposed = transpose(b, x[0], {0, 3, 1, 2});
                  return Outputs({global_avg_pool(b, transposed), global_max_pool(b, transposed)});
                },
            .type = "f32[2,3,1,1]"});
}

// The types of what the backward pass of a pool reads.
std::vector<std::string> reads_of(const std::function<Value(Builder&, Value)>& pool) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 3, 64, 64}});
  const Value y = pool(b, x);
  const Root root{y, b.input("dy", b.type(y))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  std::vector<std::string> types;
  for (const Value value : b.program().ops.back().inputs) types.push_back(b.type(value).text());
  return types;
}

TEST(Pool, BackwardReadsBytesForMaximaAndNothingForAverages) {
  using Types = std::vector<std::string>;
  EXPECT_EQ(reads_of([](Builder& b, Value x) { return max_pool(b, x, {.kernel = {16}}); }),
            (Types{"f32[batch,3,4,4]", "u8[batch,3,4,4]"}));
  EXPECT_EQ(reads_of([](Builder& b, Value x) {
              return max_pool(b, x, {.kernel = {16, 32}});
            }),
            (Types{"f32[batch,3,4,2]", "i32[batch,3,4,2]"}));
  EXPECT_EQ(reads_of([](Builder& b, Value x) { return avg_pool(b, x, {.kernel = {2}}); }),
            (Types{"f32[batch,3,32,32]"}));
  EXPECT_EQ(reads_of(global_avg_pool), (Types{"f32[batch,3,1,1]"}));
  EXPECT_EQ(reads_of(global_max_pool), (Types{"f32[batch,3,1,1]", "i32[batch,3,1,1]"}));
}

TEST(Pool, CountsFlopsSymbolically) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 3, 8, 8}});
  max_pool(b, x, {.kernel = {3}, .stride = {2}});
  EXPECT_EQ(flops(b.program(), b.program().ops[0]).text(), "243*batch");
}

TEST(Pool, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {1, 2, 5}});
  EXPECT_THROW(max_pool(b, x, {.kernel = {6}}), ArgumentError);
  EXPECT_THROW(max_pool(b, x, {.kernel = {}}), ArgumentError);
  EXPECT_THROW(avg_pool(b, x, {.kernel = {2, 2}}), ArgumentError);
  EXPECT_THROW(adaptive_avg_pool(b, x, {0}), ArgumentError);
  EXPECT_THROW(global_avg_pool(b, b.input("i", {DType::i32, {1, 2, 5}})), ArgumentError);
  try {
    max_pool(b, x, {.kernel = {2}, .padding = {2}});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "max_pool %max_pool: x is f32[1,2,5]; padding [2] must be less than a window spans (2)");
  }
}

}  // namespace
}  // namespace plimsoll::program

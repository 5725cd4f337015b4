#include "plimsoll/program/ops/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

const Operand kSeed{.shape = {}, .dtype = DType::i64, .values = {7}};

std::vector<double> dropped_ones(int64_t count, int64_t seed, const DropoutOptions& options) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {count}});
  const Value s = b.input("seed", {DType::i64, {}});
  b.output(dropout(b, x, s, options));
  Arrays<double> given;
  given["x"] = Array<double>(TensorSpec{DType::f32, {count}});
  given["x"].reals.assign(static_cast<size_t>(count), 1.0);
  given["seed"] = Array<double>(TensorSpec{DType::i64, {}});
  given["seed"].ints = {seed};
  return evaluate(std::move(b).finish(), given).outputs.at("dropout").reals;
}

TEST(Dropout, ValuesAndGradientsOnOddShapes) {
  for (const Shape& shape : kOddShapes) {
    SCOPED_TRACE(shape.text());
    check_op({.operands = {{shape}, kSeed},
              .build = [](Builder& b, const std::vector<Value>& x) { return dropout(b, x[0], x[1], {.rate = 0.3}); },
              .type = TensorSpec{DType::f32, shape}.text()});
  }
}

TEST(Dropout, DropsTheAskedPartAndKeepsTheMean) {
  const std::vector<double> y = dropped_ones(1 << 14, 3, {.rate = 0.25});
  const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.0)) / static_cast<double>(y.size());
  EXPECT_NEAR(dropped, 0.25, 4 * 0.0034);  // four standard deviations
  EXPECT_EQ(*std::max_element(y.begin(), y.end()), 1 / 0.75);
}

TEST(Dropout, RatesZeroAndOneKeepAllAndNothing) {
  EXPECT_EQ(dropped_ones(17, 3, {.rate = 0}), std::vector<double>(17, 1.0));
  EXPECT_EQ(dropped_ones(17, 3, {.rate = 1}), std::vector<double>(17, 0.0));
}

TEST(Dropout, MicroBatchesDropWhatTheWholeBatchDrops) {
  const std::vector<double> whole = dropped_ones(62, 5, {.stream = 9});
  std::vector<double> parts = dropped_ones(31, 5, {.stream = 9});
  const std::vector<double> second = dropped_ones(31, 5, {.stream = 9, .offset = 31});
  parts.insert(parts.end(), second.begin(), second.end());
  EXPECT_EQ(parts, whole);
}

TEST(Dropout, EveryUseAndEverySeedDrawsAfresh) {
  EXPECT_NE(dropped_ones(257, 5, {}), dropped_ones(257, 6, {}));
  EXPECT_NE(dropped_ones(257, 5, {.stream = 0}), dropped_ones(257, 5, {.stream = 1}));
  Builder b;
  const Value x = b.input("x", {DType::f32, {3}});
  const Value seed = b.input("seed", {DType::i64, {}});
  dropout(b, dropout(b, x, seed), seed);
  EXPECT_NE(b.program().ops[0].attributes, b.program().ops[1].attributes);
}

TEST(Dropout, BackwardReadsOnlyTheSeed) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3}});
  const Value seed = b.input("seed", {DType::i64, {}});
  const Root root{dropout(b, x, seed), b.input("dy", b.type(x))};
  gradients(b, std::span(&root, 1), std::span(&x, 1));
  EXPECT_EQ(b.program().ops.back().inputs, (std::vector{root.seed, seed}));
}

TEST(Dropout, RejectsBadRatesAndSeeds) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3}});
  const Value seed = b.input("seed", {DType::i64, {}});
  EXPECT_THROW(dropout(b, x, x), ArgumentError);
  try {
    dropout(b, x, seed, {.rate = 1.5});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "dropout %dropout: x is f32[3], seed is i64[]; rate is 1.5, expected 0 to 1");
  }
}

}  // namespace
}  // namespace plimsoll::program

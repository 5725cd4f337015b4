// Lion and Adafactor by hand, in f64.
#include "plimsoll/program/ops/factored.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/optimizer.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

Array<double> array(const Program& program, const char* name, std::vector<double> numbers) {
  Array<double> made(program[program.find(name)].type.spec());
  if (made.reals.empty()) {
    made.ints.assign(numbers.begin(), numbers.end());
  } else {
    made.reals = std::move(numbers);
  }
  return made;
}

TEST(Lion, GoesByTheSignAndThenTakesTheGradientIn) {
  Builder b;
  const Value w = b.parameter("w", {DType::f32, {2}});
  const Value dw = b.input("dw", {DType::f32, {2}});
  const Value rate = b.input("rate", {DType::f32, {}});
  const Value mean = b.state("mean", {DType::f32, {2}});
  lion(b, w, dw, mean, rate, {.weight_decay = 0.5});
  const Program program = std::move(b).finish();
  verify_bound(program);
  const auto after = evaluate(program, Arrays<double>{{"w", array(program, "w", {2, 2})},
                                                      {"dw", array(program, "dw", {0.5, -3})},
                                                      {"rate", array(program, "rate", {0.1})},
                                                      {"mean", array(program, "mean", {-0.1, 0.2})}})
                         .after;
  // 0.9 * -0.1 + 0.1 * 0.5 < 0 and 0.9 * 0.2 - 0.1 * 3 < 0.
  EXPECT_NEAR(after.at("w").reals[0], 2 * (1 - 0.05) + 0.1, 1e-12);
  EXPECT_NEAR(after.at("w").reals[1], 2 * (1 - 0.05) + 0.1, 1e-12);
  EXPECT_NEAR(after.at("mean").reals[0], 0.99 * -0.1 + 0.01 * 0.5, 1e-12);
  EXPECT_NEAR(after.at("mean").reals[1], 0.99 * 0.2 - 0.01 * 3, 1e-12);
}

TEST(Adafactor, KeepsMeansOfRowsAndColumns) {
  Builder b;
  const Value w = b.parameter("w", {DType::f32, {2, 2}});
  const Value dw = b.input("dw", {DType::f32, {2, 2}});
  const Value rate = b.input("rate", {DType::f32, {}});
  const FactoredSquares squares{b.state("rows", {DType::f32, {2}}), b.state("columns", {DType::f32, {2}})};
  const Value step = b.state("step", {DType::i64, {}});
  adafactor(b, w, dw, squares, next_step(b, step), rate);
  const Program program = std::move(b).finish();
  EXPECT_EQ(write_program(parse_program(write_program(program))), write_program(program));
  const auto after = evaluate(program, Arrays<double>{{"w", array(program, "w", {1, -1, 1, -1})},
                                                      {"dw", array(program, "dw", {1, 2, 3, 4})},
                                                      {"rate", array(program, "rate", {0.1})},
                                                      {"rows", array(program, "rows", {7, 7})},
                                                      {"columns", array(program, "columns", {7, 7})},
                                                      {"step", array(program, "step", {0})}})
                         .after;
  // In the first step the means are those of this gradient alone.
  const double rows[] = {(1.0 + 4) / 2, (9.0 + 16) / 2};
  const double columns[] = {(1.0 + 9) / 2, (4.0 + 16) / 2};
  const double mean = (rows[0] + rows[1]) / 2;
  double update[4];
  double squared = 0;
  for (int i = 0; i < 4; ++i) {
    update[i] = (i + 1) / std::sqrt(rows[i / 2] * columns[i % 2] / mean);
    squared += update[i] * update[i] / 4;
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(after.at("rows").reals[static_cast<size_t>(i)], rows[i], 1e-12);
    EXPECT_NEAR(after.at("columns").reals[static_cast<size_t>(i)], columns[i], 1e-12);
  }
  const double size = 0.1 * 1 / std::max(1.0, std::sqrt(squared));  // w has a root mean square of 1
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(after.at("w").reals[static_cast<size_t>(i)], (i % 2 == 0 ? 1 : -1) - size * update[i], 1e-9);
  }
}

}  // namespace
}  // namespace plimsoll::program

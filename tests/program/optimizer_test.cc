#include "plimsoll/program/ops/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

// A parameter w = 2 with a gradient of 0.5 at a rate of 0.1, and all that an update may need.
struct Point {
  Builder b;
  Value w = b.parameter("w", {DType::f32, {1}});
  Value dw = b.input("dw", {DType::f32, {1}});
  Value rate = b.input("rate", {DType::f32, {}});
  Value scale = b.input("scale", {DType::f32, {}});
  Value velocity = b.state("velocity", {DType::f32, {1}});
  Moments moments = {b.state("mean", {DType::f32, {1}}), b.state("square", {DType::f32, {1}})};
  Value step = b.state("step", {DType::i64, {}});

  // Parameters and state after one step from the given velocity, means and step.
  Arrays<double> after() const {
    const Program& program = b.program();
    verify_bound(program);
    EXPECT_EQ(write_program(parse_program(write_program(program))), write_program(program));
    Arrays<double> given;
    for (const auto& [name, number] : numbers) {
      given[name] = Array<double>(program[program.find(name)].type.spec());
      given[name].reals.assign(given[name].reals.size(), number);
      given[name].ints.assign(given[name].ints.size(), static_cast<int64_t>(number));
    }
    return evaluate(program, given).after;
  }

  std::map<std::string, double> numbers = {{"w", 2},        {"dw", 0.5},   {"rate", 0.1},   {"scale", 0.5},
                                           {"velocity", 3}, {"mean", 0.2}, {"square", 0.4}, {"step", 4}};
};

double number(const Arrays<double>& arrays, const char* name) { return arrays.at(name).reals[0]; }

TEST(Optimizer, SgdGoesDownTheGradient) {
  Point p;
  EXPECT_EQ(p.b.program()[sgd(p.b, p.w, p.dw, p.rate)].storage, p.w);
  EXPECT_DOUBLE_EQ(number(p.after(), "w"), 2 - 0.1 * 0.5);
}

TEST(Optimizer, SgdDecaysWeightsAfterScaling) {
  Point p;
  sgd(p.b, p.w, p.dw, p.rate, {.weight_decay = 0.01, .scale = p.scale});
  EXPECT_DOUBLE_EQ(number(p.after(), "w"), 2 - 0.1 * (0.5 * 0.5 + 0.01 * 2));
}

TEST(Optimizer, MomentumKeepsItsVelocity) {
  for (const bool nesterov : {false, true}) {
    Point p;
    momentum(p.b, p.w, p.dw, p.velocity, p.rate, {.momentum = 0.9, .nesterov = nesterov});
    const auto after = p.after();
    const double velocity = 0.9 * 3 + 0.5;
    EXPECT_DOUBLE_EQ(number(after, "velocity"), velocity);
    EXPECT_DOUBLE_EQ(number(after, "w"), 2 - 0.1 * (nesterov ? 0.5 + 0.9 * velocity : velocity));
  }
}

TEST(Optimizer, AdamCorrectsItsMeansByTheStep) {
  Point p;
  adam(p.b, p.w, p.dw, p.moments, next_step(p.b, p.step), p.rate);
  const auto after = p.after();
  const double mean = 0.9 * 0.2 + 0.1 * 0.5;
  const double square = 0.999 * 0.4 + 0.001 * 0.25;
  EXPECT_EQ(after.at("step").ints[0], 5);
  EXPECT_DOUBLE_EQ(number(after, "mean"), mean);
  EXPECT_DOUBLE_EQ(number(after, "square"), square);
  const double corrected = mean / (1 - std::pow(0.9, 5)) / (std::sqrt(square / (1 - std::pow(0.999, 5))) + 1e-8);
  EXPECT_DOUBLE_EQ(number(after, "w"), 2 - 0.1 * corrected);
}

TEST(Optimizer, AdamWTakesDecayOffTheWeightNotIntoTheMeans) {
  Point p;
  adamw(p.b, p.w, p.dw, p.moments, next_step(p.b, p.step), p.rate, {.weight_decay = 0.1});
  const auto after = p.after();
  EXPECT_DOUBLE_EQ(number(after, "mean"), 0.9 * 0.2 + 0.1 * 0.5);
  Point plain;
  adam(plain.b, plain.w, plain.dw, plain.moments, next_step(plain.b, plain.step), plain.rate);
  EXPECT_DOUBLE_EQ(number(after, "w"), number(plain.after(), "w") - 0.1 * 0.1 * 2);
}

TEST(Optimizer, ClippingScalesToTheNormAndNoFurther) {
  for (const double length : {0.1, 13.0}) {
    Builder b;
    const Value g = b.input("g", {DType::f32, {2}});
    const Value h = b.input("h", {DType::bf16, {3, 1}});
    const std::vector<Value> all = {g, h};
    const Value norm = global_norm(b, all);
    EXPECT_EQ(b.type(norm).text(), "f32[]");
    const Value scale = clip_scale(b, norm, 1);
    Arrays<double> given;
    given["g"] = Array<double>(TensorSpec{DType::f32, {2}});
    given["h"] = Array<double>(TensorSpec{DType::bf16, {3, 1}});
    given["g"].reals = {length * 3 / 13, length * 4 / 13};
    given["h"].reals = {0, length * 12 / 13, 0};
    const auto evaluation = evaluate(b.program(), given);
    EXPECT_NEAR(evaluation.values[static_cast<size_t>(norm.index)].reals[0], length, 1e-12);
    EXPECT_NEAR(evaluation.values[static_cast<size_t>(scale.index)].reals[0], std::min(1.0, 1 / length), 1e-6);
  }
}

TEST(Optimizer, RejectsWhatDoesNotFit) {
  Point p;
  EXPECT_EQ(error_of([&] { sgd(p.b, p.w, p.rate, p.rate); }),
            "sgd %sgd: w is f32[1], dw is f32[], rate is f32[]; w and dw must have the same dtype and shape");
  EXPECT_EQ(error_of([&] { momentum(p.b, p.w, p.dw, p.rate, p.rate); }),
            "momentum %momentum: w is f32[1], dw is f32[1], velocity is f32[], rate is f32[]; velocity must have the "
            "shape of w");
  EXPECT_EQ(error_of([&] { adam(p.b, p.w, p.dw, p.moments, p.rate, p.rate); }),
            "adam %adam: w is f32[1], dw is f32[1], mean is f32[1], square is f32[1], step is f32[], rate is f32[]; "
            "step must be one integer");
  EXPECT_EQ(error_of([&] { clip_scale(p.b, p.rate, 0); }),
            "clip_scale %clip_scale: norm is f32[]; max_norm must be above 0");
}

}  // namespace
}  // namespace plimsoll::program

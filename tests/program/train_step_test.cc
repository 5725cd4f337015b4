#include "plimsoll/program/train_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "plimsoll/program/builder.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

struct Model {
  Program program;
  Value loss;
};

// Layers of `width` features on [17, width], and the mean squared error.
Model layers(int count, int64_t width) {
  Builder b;
  Value x = b.input("x", {DType::f32, {17, width}});
  const Value target = b.input("target", b.type(x));
  for (int i = 0; i < count; ++i) {
    Scope layer(b, "layer" + std::to_string(i));
    const Value w = b.parameter("w", {DType::f32, {width, width}});
    x = relu(b, linear(b, x, w, b.parameter("bias", {DType::f32, {width}})));
  }
  const Value loss = mse_loss(b, x, target);
  return {std::move(b).finish(), loss};
}

// P4 of the reference programs.
Model linear_29_to_10() {
  Builder b;
  const Value x = b.input("x", {DType::f32, {17, 29}});
  const Value target = b.input("target", {DType::f32, {17, 10}});
  const Value w = b.parameter("w", {DType::f32, {10, 29}});
  const Value loss = mse_loss(b, linear(b, x, w, b.parameter("bias", {DType::f32, {10}})), target);
  b.rename(loss, "loss");
  return {std::move(b).finish(), loss};
}

std::vector<std::string> op_names(const Program& program) {
  std::vector<std::string> names;
  for (const Op& op : program.ops) names.push_back(op.def->name);
  return names;
}

// The most bytes that are alive at once beside what stays through the whole step: each storage from the op that makes
// it to the last op that touches it.
int64_t max_live_bytes(const Program& program) {
  struct Life {
    int64_t first = -1;
    int64_t last = -1;
  };
  std::vector<Life> lives(program.values.size());
  const auto produced_by = producers(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (const auto* values : {&program.ops[i].inputs, &program.ops[i].outputs}) {
      for (const Value value : *values) {
        if (!value) continue;
        const Value storage = program[value].storage;
        lives[static_cast<size_t>(storage.index)] = {produced_by[static_cast<size_t>(storage.index)],
                                                     static_cast<int64_t>(i)};
      }
    }
  }
  int64_t most = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    int64_t bytes = 0;
    for (size_t v = 0; v < lives.size(); ++v) {
      const bool alive =
          lives[v].first >= 0 && lives[v].first <= static_cast<int64_t>(i) && lives[v].last >= static_cast<int64_t>(i);
      if (alive) bytes += program.values[v].type.bytes().constant();
    }
    most = std::max(most, bytes);
  }
  return most;
}

// Arrays for everything that comes in: random inputs and parameters, zero state, the given rate.
Arrays<double> first_arrays(const Program& program, double rate) {
  std::mt19937 random(20);
  std::uniform_real_distribution<double> real(-1, 1);
  Arrays<double> arrays;
  for (const auto* values : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *values) {
      Array<double>& array = arrays[program[value].name] = Array<double>(program[value].type.spec());
      if (values == &program.state) continue;
      for (double& x : array.reals) x = real(random);
    }
  }
  arrays["optimizer.rate"].reals = {rate};
  return arrays;
}

// The losses of some steps, each from what the last one left.
std::vector<double> train(const Program& program, double rate, int steps) {
  Arrays<double> arrays = first_arrays(program, rate);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const auto evaluation = evaluate(program, arrays);
    losses.push_back(evaluation.outputs.begin()->second.reals[0]);
    for (const auto& [name, array] : evaluation.after) arrays[name] = array;
  }
  return losses;
}

TEST(TrainingStep, UpdatesAsSoonAsTheGradientIsComplete) {
  const Model model = layers(2, 3);
  const Program step = training_step(model.program, model.loss);
  EXPECT_EQ(find_problems(step), std::vector<std::string>());
  const std::vector<std::string> expected = {"linear",
                                             "relu",
                                             "linear",
                                             "relu",
                                             "mse_loss",
                                             "fill",
                                             "mse_loss_backward",
                                             "mask_backward",
                                             "linear_backward_weights",
                                             "next_step",
                                             "adam",                   // the bias: nothing else reads it
                                             "linear_backward_input",  // reads the weights
                                             "adam",
                                             "mask_backward",
                                             "linear_backward_weights",
                                             "adam",
                                             "adam"};
  EXPECT_EQ(op_names(step), expected);
}

TEST(TrainingStep, EarlyUpdatesTakeLessMemoryAndChangeNothingElse) {
  const Model model = layers(4, 31);
  TrainOptions options{.optimizer = Optimizer::momentum};
  const Program early = training_step(model.program, model.loss, options);
  options.early_updates = false;
  const Program late = training_step(model.program, model.loss, options);
  EXPECT_EQ(find_problems(late), std::vector<std::string>());
  const int64_t layer_bytes = (31 * 31 + 31) * 4;
  EXPECT_GE(max_live_bytes(late), 4 * layer_bytes);
  EXPECT_LE(max_live_bytes(early), max_live_bytes(late) - layer_bytes);
  EXPECT_EQ(train(early, 0.1, 3), train(late, 0.1, 3));
}

TEST(TrainingStep, ClippingWaitsForAllGradients) {
  const Model model = layers(2, 3);
  const Program step = training_step(model.program, model.loss, {.optimizer = Optimizer::sgd, .clip_norm = 0.5});
  EXPECT_EQ(find_problems(step), std::vector<std::string>());
  const std::vector<std::string> names = op_names(step);
  const std::vector<std::string> expected = {"global_norm", "clip_scale", "sgd", "sgd", "sgd", "sgd"};
  EXPECT_EQ(std::vector<std::string>(names.end() - 6, names.end()), expected);
}

TEST(TrainingStep, ClippedGradientsMoveParametersByTheNorm) {
  const Model model = linear_29_to_10();
  const Program step = training_step(model.program, model.loss, {.optimizer = Optimizer::sgd, .clip_norm = 0.01});
  const Arrays<double> before = first_arrays(step, 1);
  const auto after = evaluate(step, before).after;
  double squares = 0;
  for (const auto& [name, array] : after) {
    for (size_t i = 0; i < array.reals.size(); ++i) squares += std::pow(array.reals[i] - before.at(name).reals[i], 2);
  }
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-6);
}

TEST(TrainingStep, EveryOptimizerLearns) {
  const std::map<Optimizer, double> rates = {{Optimizer::sgd, 1},     {Optimizer::momentum, 0.1},
                                             {Optimizer::adam, 0.05}, {Optimizer::adamw, 0.05},
                                             {Optimizer::lion, 0.02}, {Optimizer::adafactor, 0.2}};
  for (const auto& [optimizer, rate] : rates) {
    const Model model = linear_29_to_10();
    const Program step = training_step(model.program, model.loss, {.optimizer = optimizer});
    const std::vector<double> losses = train(step, rate, 30);
    EXPECT_LT(losses.back(), losses.front() / 4) << name(optimizer);
  }
}

TEST(TrainingStep, StateIsNamedAfterItsParameter) {
  const Model model = linear_29_to_10();
  const Program step = training_step(model.program, model.loss, {.optimizer = Optimizer::adamw});
  std::vector<std::string> names;
  for (const Value value : step.state) {
    names.push_back(step[value].name + " " + step[value].type.text());
    EXPECT_EQ(step[value].category, Category::optimizer_state);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"optimizer.bias.mean f32[10]", "optimizer.bias.square f32[10]",
                                             "optimizer.step i64[]", "optimizer.w.mean f32[10,29]",
                                             "optimizer.w.square f32[10,29]"}));
  EXPECT_EQ(step.outputs, std::vector<Value>{model.loss});
  EXPECT_EQ(step[step.find("grad.w")].category, Category::gradient);
}

TEST(TrainingStep, IsReadBackFromItsText) {
  const Model model = linear_29_to_10();
  const std::string text = write_program(training_step(model.program, model.loss));
  EXPECT_EQ(write_program(parse_program(text)), text);
}

TEST(TrainingStep, LeavesAloneWhatTheLossDoesNotDependOn) {
  Builder b(linear_29_to_10().program);
  b.parameter("unused", {DType::f32, {3}});
  b.parameter("table", {DType::i64, {3}});
  const Value loss = b.program().find("loss");
  const Program step = training_step(std::move(b).finish(), loss);
  EXPECT_FALSE(step.find("optimizer.unused.mean"));
  EXPECT_FALSE(step.find("optimizer.table.mean"));
}

TEST(TrainingStep, LossWithoutParametersIsNamed) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3}});
  const Value loss = mse_loss(b, x, x);
  EXPECT_EQ(error_of([&] { training_step(b.program(), loss); }),
            "the loss %mse_loss depends on no parameter: there is nothing to train");
}

TEST(TrainingStep, OptimizersHaveNames) {
  for (const char* text : {"sgd", "momentum", "adam", "adamw", "lion", "adafactor"})
    EXPECT_EQ(name(*try_parse_optimizer(text)), text);
  EXPECT_FALSE(try_parse_optimizer("adagrad"));
}

}  // namespace
}  // namespace plimsoll::program

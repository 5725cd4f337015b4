#include "plimsoll/program/ops/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

void check_cross_entropy(const Shape& logits, const Operand& targets, CrossEntropyOptions options) {
  check_op({.operands = {{logits, -3, 3}, targets},
            .build = [=](Builder& b, const std::vector<Value>& x) { return cross_entropy(b, x[0], x[1], options); }});
}

Operand classes(const Shape& shape, int64_t count) {
  return {.shape = shape, .low = 0, .high = static_cast<double>(count - 1), .dtype = DType::i64};
}

TEST(CrossEntropy, ValuesAndGradients) {
  for (const Reduction reduction : kReductions) {
    check_cross_entropy({17, 10}, classes({17}, 10), {.reduction = reduction});
    check_cross_entropy({2, 3, 5}, classes({2, 3}, 5), {.label_smoothing = 0.1, .reduction = reduction});
    check_cross_entropy({2, 7, 3, 2}, classes({2, 3, 2}, 7), {.axis = 1, .reduction = reduction});
    check_cross_entropy({31}, classes({}, 31), {.reduction = reduction});
    check_cross_entropy({257, 1}, classes({257}, 1), {.reduction = reduction});
  }
}

TEST(CrossEntropy, IgnoredTargetsCountForNothing) {
  const Operand targets = {.shape = {3}, .dtype = DType::i32, .values = {0, 7, 1}};
  for (const Reduction reduction : kReductions) {
    check_cross_entropy({3, 5}, targets, {.ignored_index = 7, .label_smoothing = 0.2, .reduction = reduction});
  }
  check_op({.operands = {{.shape = {3, 2}, .values = {0, 0, 5, 9, 0, std::log(3.0)}}, targets},
            .build = [](Builder& b,
                        const std::vector<Value>& x) { return cross_entropy(b, x[0], x[1], {.ignored_index = 7}); },
            .type = "f32[]",
            .expected = {(std::log(2.0) - std::log(0.75)) / 2}});
}

TEST(CrossEntropy, BackwardReadsOneNumberForEachLineAndNoSoftmax) {
  Builder b;
  const Value logits = b.input("logits", {DType::bf16, {Dim::symbol("batch"), 1000}});
  const Value targets = b.input("targets", {DType::i64, {Dim::symbol("batch")}});
  const Value loss = cross_entropy(b, logits, targets);
  EXPECT_EQ(b.type(loss).text(), "f32[]");
  EXPECT_EQ(b.program().values.size(), 3u);
  const Value found = gradients(b, loss, std::span(&logits, 1))[0];
  EXPECT_EQ(b.type(found), b.type(logits));
  const Op& backward = b.program().ops.back();
  ASSERT_EQ(backward.inputs.size(), 4u);
  EXPECT_EQ(b.program()[backward.inputs[3]].name, "cross_entropy.lse");
  EXPECT_EQ(b.type(backward.inputs[3]).text(), "f32[batch]");
  EXPECT_EQ(backward.def->in_place, std::vector<int>{1});
}

TEST(CrossEntropy, TargetThatIsNoClassIsNamedWithItsPlace) {
  Builder b;
  const Value logits = b.input("logits", {DType::f32, {2, 3}});
  cross_entropy(b, logits, b.input("targets", {DType::i64, {2}}));
  Arrays<double> given;
  given["logits"] = Array<double>(TensorSpec{DType::f32, {2, 3}});
  given["targets"] = Array<double>(TensorSpec{DType::i64, {2}});
  given["targets"].ints = {2, 3};
  EXPECT_EQ(error_of([&] { evaluate(b.program(), given); }),
            "cross_entropy %cross_entropy: logits is f32[2,3], targets is i64[2]; target 3 at place 1 is no class: "
            "expected 0 to 2, or -100 to ignore it");
}

// As in PyTorch: the mean over no targets is not a number, and nothing is learnt from it.
TEST(CrossEntropy, NothingIsLearntWhenAllTargetsAreIgnored) {
  Builder b;
  const Value logits = b.input("logits", {DType::f32, {2, 3}});
  const Value loss = cross_entropy(b, logits, b.input("targets", {DType::i64, {2}}), {.ignored_index = 0});
  const Value gradient = gradients(b, loss, std::span(&logits, 1))[0];
  Arrays<double> given;
  given["logits"] = Array<double>(TensorSpec{DType::f32, {2, 3}});
  given["targets"] = Array<double>(TensorSpec{DType::i64, {2}});
  const auto evaluation = evaluate(b.program(), given);
  EXPECT_TRUE(std::isnan(evaluation.values[static_cast<size_t>(loss.index)].reals[0]));
  EXPECT_EQ(evaluation.values[static_cast<size_t>(gradient.index)].reals, std::vector<double>(6, 0.0));
}

TEST(CrossEntropy, RejectsTargetsThatDoNotFit) {
  Builder b;
  const Value logits = b.input("logits", {DType::f32, {Dim::symbol("batch"), 10}});
  const Value classes_ = b.input("classes", {DType::i64, {10}});
  EXPECT_EQ(
      error_of([&] { cross_entropy(b, logits, classes_); }),
      "cross_entropy %cross_entropy: logits is f32[batch,10], targets is i64[10]; targets must be of the shape of "
      "the logits without dimension -1, [batch]");
  EXPECT_EQ(
      error_of([&] { cross_entropy(b, logits, logits); }),
      "cross_entropy %cross_entropy: logits is f32[batch,10], targets is f32[batch,10]; targets must be integers: "
      "the index of a class");
}

using Loss = Value (*)(Builder&, Value, Value, Reduction);

TEST(PointwiseLosses, ValuesAndGradients) {
  const Loss huber = [](Builder& b, Value x, Value t, Reduction r) { return huber_loss(b, x, t, 0.5, r); };
  for (const Loss loss : {mse_loss, l1_loss, bce_with_logits_loss, bce_loss, huber}) {
    for (const Reduction reduction : kReductions) {
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 17}, Shape{31}, Shape{257}}) {
        // Apart from each other, so that no difference steps over a corner.
        check_op({.operands = {{shape, 0.05, 0.4}, {shape, 0.45, 0.9}},
                  .build = [=](Builder& b, const std::vector<Value>& x) { return loss(b, x[0], x[1], reduction); }});
      }
    }
  }
}

TEST(PointwiseLosses, ValuesByHand) {
  const auto check = [](const std::function<Value(Builder&, Value, Value)>& loss, double expected) {
    check_op({.operands = {{.shape = {2}, .values = {1, -3}}, {.shape = {2}, .values = {0.5, 1}}},
              .build = [=](Builder& b, const std::vector<Value>& x) { return loss(b, x[0], x[1]); },
              .type = "f32[]",
              .expected = {expected}});
  };
  check([](Builder& b, Value x, Value t) { return mse_loss(b, x, t); }, (0.25 + 16) / 2);
  check([](Builder& b, Value x, Value t) { return l1_loss(b, x, t); }, (0.5 + 4) / 2);
  check([](Builder& b, Value x, Value t) { return huber_loss(b, x, t, 2); }, (0.125 + 2 * (4 - 1)) / 2);
  check([](Builder& b, Value x, Value t) { return bce_with_logits_loss(b, x, t, Reduction::sum); },
        std::log1p(std::exp(1)) - 0.5 + std::log1p(std::exp(3)));
}

TEST(PointwiseLosses, RejectOtherShapesAndReductions) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3}});
  const Value t = b.input("t", {DType::f32, {3, 1}});
  EXPECT_EQ(error_of([&] { mse_loss(b, x, t); }),
            "mse_loss %mse_loss: x is f32[3], target is f32[3,1]; x and target must have the same dtype and shape");
  EXPECT_EQ(error_of([&] {
              b.emit("mse_loss", {x, x}, {{"reduction", "average"}});
            }),
            "mse_loss %mse_loss: x is f32[3], target is f32[3]; reduction must be none, mean or sum");
}

}  // namespace
}  // namespace plimsoll::program

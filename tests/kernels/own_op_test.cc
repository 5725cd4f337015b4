// An op that the library does not have: one entry for what it means, one for how the CPU runs it, from outside.
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/elementwise.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/program/ops/elementwise.h"
#include "plimsoll/program/passes/fold_constants.h"
#include "plimsoll/program/split_step.h"
#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

// (x + sqrt(x * x + 1)) / 2: a ReLU with a round corner, never negative.
void add_squareplus(program::OpTable& table) {
  program::add_elementwise(
      table, {.name = "squareplus", .sign = program::Sign::non_negative},
      [](auto x) { return (x + std::sqrt(x * x + 1)) / 2; }, [](auto x) { return (1 + x / std::sqrt(x * x + 1)) / 2; });
}

void add_squareplus_kernels(kernels::KernelTable& table) {
  kernels::add_elementwise(
      table, "squareplus", [](float x) { return (x + std::sqrt(x * x + 1)) / 2; },
      [](float x) { return (1 + x / std::sqrt(x * x + 1)) / 2; });
}

// Before anything uses the tables.
const bool kAdded = [] {
  program::add_ops(add_squareplus);
  kernels::add_cpu_kernels(add_squareplus_kernels);
  return true;
}();

TEST(OwnOp, RunsOnTheCpuInAllPrecisions) {
  ASSERT_TRUE(kAdded);
  expect_agreement_in_all_precisions("input %x: f32[3,17,31]\n%y = squareplus(%x)\noutput %y\n", {-4, 4});
}

TEST(OwnOp, HasItsGradient) {
  expect_agreement(with_gradients("input %x: f32[257]\n%y = squareplus(%x)\noutput %y\n"), {-4, 4});
}

TEST(OwnOp, IsKnownToPassesByItsTraits) {
  const std::string folded = program::write_program(program::fold_constants(program::parse_program(
      "input %x: f32[3]\n%c = fill() {value=0, shape=[3]}\n%d = squareplus(%c)\n%y = add(%x, %d)\noutput %y\n")));
  EXPECT_EQ(folded, "input %x: f32[3]\n%y: f32[3] = affine(%x) {shift=0.5}\noutput %y\n");
  const program::OpDef& def = program::op_table().get("squareplus");
  const program::OpCall call{def, {}, {}};
  EXPECT_EQ(def.sign(call), program::Sign::non_negative);
}

TEST(OwnOp, TakesMicroBatches) {
  program::Program model = program::parse_program(
      "input %x: f32[batch,8]\ninput %t: f32[batch,5]\nparameter %w: f32[5,8]\n%h = linear(%x, %w)\n"
      "%y = squareplus(%h)\n%loss = mse_loss(%y, %t)\noutput %loss\n");
  const program::Value loss = model.outputs[0];
  EXPECT_EQ(program::why_no_micro_batches(model, loss), std::nullopt);
}

TEST(OwnOp, IsRefusedOnceTheTablesAreInUse) {
  program::op_table();
  kernels::cpu_kernels();
  EXPECT_THROW(program::add_ops(add_squareplus), ArgumentError);
  EXPECT_THROW(kernels::add_cpu_kernels(add_squareplus_kernels), ArgumentError);
}

}  // namespace
}  // namespace plimsoll

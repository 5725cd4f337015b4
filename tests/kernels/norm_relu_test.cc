// Batch normalisation with the ReLU and the sum that follow it, forward and backward.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/fuse_norm_relus.h"
#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

using program::parse_program;

const char* const kShapes[] = {"[3,5,4,7]", "[4,16,5,3]", "[37,24]", "[2,8,130,11]", "[6,64,9]"};

std::string channels_of(const std::string& shape) {
  const size_t begin = shape.find(',') + 1;
  return shape.substr(begin, shape.find_first_of(",]", begin) - begin);
}

std::string operands(const std::string& shape) {
  return fmt::format("input %x: f32{0}\ninput %q: f32{0}\ninput %w: f32[{1}]\ninput %b: f32[{1}]\n", shape,
                     channels_of(shape));
}

std::string in_precision(std::string text, const std::string& dtype) {
  for (size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32", at + dtype.size())) {
    text.replace(at, 3, dtype);
  }
  return text;
}

TEST(NormRelu, IsAsTheOpsOfTheirOwn) {
  for (const std::string shape : kShapes) {
    for (const char* residual : {"", ", %q"}) {
      SCOPED_TRACE(shape + residual);
      const std::string text = operands(shape) + fmt::format(
                                                     "%mean, %rstd, %variance = batch_norm_statistics(%x)\n"
                                                     "%y = batch_norm_relu(%x, %mean, %rstd, %w, %b{})\n"
                                                     "output %y\noutput %mean\noutput %rstd\noutput %variance\n",
                                                     residual);
      expect_agreement(parse_program(text), {.tolerance = 1e-4});
      expect_agreement(parse_program(in_precision(text, "bf16")), {.tolerance = 2e-2});
      expect_agreement(parse_program(in_precision(text, "f16")), {.tolerance = 4e-3});
    }
  }
}

// The mask of other values than those that are normalised: it is an operand like any other.
TEST(NormRelu, GoesBackwardByItsMask) {
  for (const std::string shape : kShapes) {
    for (const char* slope : {"_", "%dq"}) {
      SCOPED_TRACE(shape + slope);
      const std::string text =
          operands(shape) + fmt::format(
                                "%r, %mask = relu(%q)\n%y, %mean, %rstd, _ = batch_norm(%x, %w, %b)\n"
                                "%dx, %dw, %db, {} = batch_norm_relu_backward(%y, %mask, %x, %mean, %rstd, %w)\n"
                                "output %dx\noutput %dw\noutput %db\noutput %r\n{}",
                                slope, slope[0] == '%' ? "output %dq\n" : "");
      expect_agreement(parse_program(text), {.tolerance = 1e-4});
    }
  }
}

// Between convolutions images lie with their channels last where a device likes that.
TEST(NormRelu, WorksBetweenConvolutions) {
  const std::string text =
      "input %x: f32[2,16,9,11]\ninput %w: f32[32,16,3,3]\ninput %v: f32[32,32,3,3]\ninput %a: f32[32]\n"
      "input %b: f32[32]\n%c = conv(%x, %w) {padding=[1]}\n%cm, %cr = batch_norm_statistics(%c)\n"
      "%n = batch_norm_relu(%c, %cm, %cr, %a, %b)\n"
      "%d = conv(%n, %v) {padding=[1]}\n%dm, %dr = batch_norm_statistics(%d)\n"
      "%m = batch_norm_relu(%d, %dm, %dr, %b, %a, %n)\n%z = conv(%m, %v) {padding=[1]}\n"
      "output %z\n";
  expect_agreement(parse_program(text), {.tolerance = 2e-4});
}

TEST(NormRelu, IsFusedFromAWholeBlockAndItsGradients) {
  const program::Program program = with_gradients(
      "input %x: f32[3,16,6,5]\ninput %w: f32[16,16,3,3]\ninput %a: f32[16]\ninput %b: f32[16]\n"
      "%c = conv(%x, %w) {padding=[1]}\n%n = batch_norm(%c, %a, %b)\n%r = relu(%n)\n"
      "%d = conv(%r, %w) {padding=[1]}\n%m = batch_norm(%d, %b, %a)\n%s = add(%m, %r)\n%y = relu(%s)\noutput %y\n");
  const program::Program fused = program::eliminate_dead_code(program::fuse_norm_relus(program));
  EXPECT_EQ(fused.ops.size() + 3, program.ops.size());  // a sum and two masks
  expect_agreement(fused, {.tolerance = 1e-3});
}

}  // namespace
}  // namespace plimsoll

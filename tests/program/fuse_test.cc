// Biases, residual additions and ReLUs taken into the products before them.
#include <gtest/gtest.h>

#include "op_check.h"
#include "pass_check.h"
#include "plimsoll/program/passes/fuse_bias.h"
#include "plimsoll/program/passes/fuse_epilogues.h"
#include "plimsoll/program/passes/optimize.h"
#include "plimsoll/program/text.h"

namespace plimsoll::program {
namespace {

constexpr double kRounding = 1e-12;

TEST(FuseBias, IntoLinearAndTheProductWithATransposedMatrix) {
  check_pass(R"(
input %x: f32[2,5,3]
parameter %w: f32[4,3]
parameter %b: f32[4]
%a = linear(%x, %w)
%y = add(%b, %a)
%c = matmul(%x, %w) {transpose_b=true}
%z = add(%c, %b)
output %y
output %z)",
             fuse_bias, R"(
input %x: f32[2,5,3]
parameter %w: f32[4,3]
parameter %b: f32[4]
%y = linear(%x, %w, %b)
%z = linear(%x, %w, %b)
output %y
output %z)",
             kRounding);
}

TEST(FuseBias, IntoConvWhateverDimensionsItWasGiven) {
  check_pass(R"(
input %x: f32[2,3,5,5]
parameter %w: f32[4,3,3,3]
parameter %b: f32[4]
parameter %c: f32[1,4,1,1]
%a = conv(%x, %w)
%channels = reshape(%b) {shape=[4,1,1]}
%y = add(%a, %channels)
%d = conv(%x, %w)
%z = add(%d, %c)
output %y
output %z)",
             [](Program p) { return simplify(std::move(p)); }, R"(
input %x: f32[2,3,5,5]
parameter %w: f32[4,3,3,3]
parameter %b: f32[4]
parameter %c: f32[1,4,1,1]
%y = conv(%x, %w, %b)
%reshape = reshape(%c) {shape=[4]}
%z = conv(%x, %w, %reshape)
output %y
output %z)",
             kRounding);
}

TEST(FuseBias, NotWhatVariesAlongAnotherDimensionOrIsReadElsewhere) {
  const std::string stays = R"(
input %x: f32[4,3]
parameter %w: f32[4,3]
parameter %rows: f32[4,1]
parameter %b: f32[4]
%a = linear(%x, %w)
%y = add(%a, %rows)
%c = linear(%y, %a)
%d = linear(%x, %w)
%z = add(%d, %b)
output %c
output %d
output %z)";
  check_pass(stays, fuse_bias, stays);
}

TEST(FuseEpilogues, TakesTheResidualAndTheReluIntoConv) {
  check_pass(R"(
input %x: f32[2,4,5,5]
parameter %w: f32[4,4,3,3]
parameter %b: f32[4]
%a = tanh(%x)
%c = conv(%a, %w, %b) {padding=[1]}
%s = add(%c, %x)
%y = relu(%s)
output %y)",
             fuse_epilogues, R"(
input %x: f32[2,4,5,5]
parameter %w: f32[4,4,3,3]
parameter %b: f32[4]
%a = tanh(%x)
%y = conv_epilogue(%a, %w, %b, %x) {padding=[1], residual=true, relu=true}
output %y)");
}

TEST(FuseEpilogues, OfTwoProductsTheLaterTakesTheSum) {
  check_pass(R"(
input %x: f32[3,4]
parameter %w: f32[4,4]
parameter %v: f32[4,4]
%a = linear(%x, %w)
%b = matmul(%x, %v)
%y = add(%a, %b)
output %y)",
             fuse_epilogues, R"(
input %x: f32[3,4]
parameter %w: f32[4,4]
parameter %v: f32[4,4]
%a = linear(%x, %w)
%y = matmul_epilogue(%x, %v, %a) {residual=true}
output %y)");
}

TEST(FuseEpilogues, AddsWhatBroadcasts) {
  check_pass(R"(
input %x: f32[2,3,4]
parameter %w: f32[4,5]
parameter %b: f32[5]
%a = matmul(%x, %w)
%s = add(%a, %b)
%y = relu(%s)
output %y)",
             fuse_epilogues, R"(
input %x: f32[2,3,4]
parameter %w: f32[4,5]
parameter %b: f32[5]
%y = matmul_epilogue(%x, %w, %b) {residual=true, relu=true}
output %y)");
}

TEST(FuseEpilogues, LeavesAReluWhoseMaskWouldMeetWhatDiesAtTheProduct) {
  const std::string before = R"(
input %x: f32[8,8]
parameter %w: f32[8,8]
%a = tanh(%x)
%c = linear(%a, %w)
%y, %mask = relu(%c)
%dc = mask_backward(%y, %mask) @backward
)";
  check_pass(before + "output %dc", fuse_epilogues, before + "output %dc");
  check_pass(before + "%da = mul(%dc, %a)\noutput %da", fuse_epilogues, R"(
input %x: f32[8,8]
parameter %w: f32[8,8]
%a = tanh(%x)
%y, %mask = linear_epilogue(%a, %w) {relu=true}
%dc = mask_backward(%y, %mask) @backward
%da = mul(%dc, %a)
output %da)");
}

TEST(FuseEpilogues, ReadsAndRejectsItsOpsAsText) {
  const std::string head = "input %x: f32[3,4]\nparameter %w: f32[5,4]\n";
  const auto error = [&](const std::string& op) {
    try {
      parse_program(head + op, "p");
    } catch (const std::exception& found) {
      return std::string(found.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error("%y = linear_epilogue(%x, %w) {relu=true}"), "no error");
  EXPECT_EQ(error("%y = linear_epilogue(%x, %w) {residual=true}"),
            "p:3:6: linear_epilogue %y: x is f32[3,4], w is f32[5,4]; with residual=true the last operand is added");
  EXPECT_EQ(
      error("%y = linear_epilogue(%x, %w, %x) {residual=true}"),
      "p:3:6: linear_epilogue %y: x is f32[3,4], w is f32[5,4], bias is f32[3,4]; the residual, the last operand, "
      "must broadcast to the result, f32[3,5]");
}

}  // namespace
}  // namespace plimsoll::program

// Dead code and common subexpressions.
#include <gtest/gtest.h>

#include "pass_check.h"
#include "plimsoll/program/passes/common_subexpressions.h"
#include "plimsoll/program/passes/dead_code.h"

namespace plimsoll::program {
namespace {

TEST(DeadCode, DropsOpsAndMasksThatNothingReads) {
  check_pass(R"(
input %x: f32[8]
%unread = exp(%x)
%y, %mask = relu(%x)
%also_unread = neg(%unread)
output %y)",
             eliminate_dead_code, R"(
input %x: f32[8]
%y = relu(%x)
output %y)");
}

TEST(DeadCode, KeepsUpdatesAndWhatComesIn) {
  const std::string step = R"(
input %rate: f32[]
input %unread: f32[3]
parameter %w: f32[3]
state %kept: f32[3]
%dw: f32[3] = fill() {value=1, shape=[3]} @backward
%new = sgd(%w, %dw, %rate) @update
)";
  check_pass(step, eliminate_dead_code, step);
}

TEST(CommonSubexpressions, AreComputedOnce) {
  check_pass(R"(
input %x: f32[3,4]
%a = exp(%x)
%b = exp(%x)
%s = sub(%a, %b)
%y = mul(%s, %a)
output %y)",
             eliminate_common_subexpressions, R"(
input %x: f32[3,4]
%a = exp(%x)
%s = sub(%a, %a)
%y = mul(%s, %a)
output %y)");
}

TEST(CommonSubexpressions, DifferInTheirAttributes) {
  const std::string different = R"(
input %x: f32[4]
%a = affine(%x) {scale=2}
%b = affine(%x) {scale=3}
%y = add(%a, %b)
output %y)";
  check_pass(different, eliminate_common_subexpressions, different);
}

TEST(CommonSubexpressions, SeeTheEndOfAChainWhoseFirstLinkIsGone) {
  check_pass(R"(
input %x: f32[4]
%n1 = neg(%x)
%a = exp(%n1)
%n2 = neg(%x)
%b = exp(%n2)
%y = mul(%a, %b)
output %y)",
             eliminate_common_subexpressions, R"(
input %x: f32[4]
%n1 = neg(%x)
%a = exp(%n1)
%y = mul(%a, %a)
output %y)");
}

TEST(CommonSubexpressions, AreComputedAgainWhereKeepingThemWouldTakeMemory) {
  const std::string again = R"(
input %x: f32[100]
%a = exp(%x)
%first = sum(%a)
%wide = expand(%x) {shape=[3,100]}
%work = tanh(%wide)
%second = sum(%work)
%b = exp(%x)
%third = norm2(%b)
output %first
output %second
output %third)";
  check_pass(again, eliminate_common_subexpressions, again);
}

TEST(CommonSubexpressions, OfAParameterEndWithItsUpdate) {
  const std::string step = R"(
input %rate: f32[]
parameter %w: f32[2,3]
%t1 = transpose(%w) {axes=[1,0]}
%t2 = transpose(%w) {axes=[1,0]}
%dw = add(%t1, %t2)
%back = transpose(%dw) {axes=[1,0]}
%new = sgd(%w, %back, %rate) @update
%t3 = transpose(%new) {axes=[1,0]}
%y = exp(%t3)
output %y)";
  check_pass(step, eliminate_common_subexpressions, R"(
input %rate: f32[]
parameter %w: f32[2,3]
%t1 = transpose(%w) {axes=[1,0]}
%dw = add(%t1, %t1)
%back = transpose(%dw) {axes=[1,0]}
%new = sgd(%w, %back, %rate) @update
%t3 = transpose(%new) {axes=[1,0]}
%y = exp(%t3)
output %y)");
}

}  // namespace
}  // namespace plimsoll::program

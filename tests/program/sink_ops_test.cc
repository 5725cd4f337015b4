// The order of ops.
#include "plimsoll/program/passes/sink_ops.h"

#include <gtest/gtest.h>

#include "pass_check.h"

namespace plimsoll::program {
namespace {

TEST(SinkOps, MakesLargeResultsWhenTheyAreWanted) {
  check_pass(R"(
input %x: f32[64,64]
%wide = exp(%x)
%small = neg(%x)
%other = tanh(%small)
%y = mul(%other, %wide)
output %y)",
             sink_ops, R"(
input %x: f32[64,64]
%small = neg(%x)
%other = tanh(%small)
%wide = exp(%x)
%y = mul(%other, %wide)
output %y)");
}

TEST(SinkOps, KeepsNoOperandForAResultThatIsNoLarger) {
  const std::string program = R"(
input %x: f32[64,64]
%a = exp(%x)
%b = neg(%a)
%c = tanh(%x)
%y = mul(%c, %b)
output %y)";
  check_pass(program, sink_ops, program);
}

TEST(SinkOps, ReadsBeforeItIsWrittenOver) {
  const std::string step = R"(
input %rate: f32[]
parameter %w: f32[64,64]
%dw: f32[64,64] = fill() {value=1, shape=[64,64]} @backward
%before = exp(%w) @backward
%new = sgd(%w, %dw, %rate) @update
%after = exp(%new) @update
%y = mul(%before, %after) @update
output %y)";
  check_pass(step, sink_ops, step);
}

}  // namespace
}  // namespace plimsoll::program

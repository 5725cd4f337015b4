// The order of ops.
#include "plimsoll/program/passes/run_late.h"

#include <gtest/gtest.h>

#include "pass_check.h"

namespace plimsoll::program {
namespace {

TEST(RunLate, MakesLargeResultsWhenTheyAreWanted) {
  check_pass(R"(
input %x: f32[64,64]
%wide = exp(%x)
%small = neg(%x)
%other = tanh(%small)
%y = mul(%other, %wide)
output %y)",
             run_late, R"(
input %x: f32[64,64]
%small = neg(%x)
%other = tanh(%small)
%wide = exp(%x)
%y = mul(%other, %wide)
output %y)");
}

TEST(RunLate, KeepsNoOperandForAResultThatIsNoLarger) {
  const std::string program = R"(
input %x: f32[64,64]
%a = exp(%x)
%b = neg(%a)
%c = tanh(%x)
%y = mul(%c, %b)
output %y)";
  check_pass(program, run_late, program);
}

TEST(RunLate, ReadsBeforeItIsWrittenOver) {
  const std::string step = R"(
input %rate: f32[]
parameter %w: f32[64,64]
%dw: f32[64,64] = fill() {value=1, shape=[64,64]} @backward
%before = exp(%w) @backward
%new = sgd(%w, %dw, %rate) @update
%after = exp(%new) @update
%y = mul(%before, %after) @update
output %y)";
  check_pass(step, run_late, step);
}

}  // namespace
}  // namespace plimsoll::program

#include "plimsoll/program/passes/fuse_norm_relus.h"

#include <gtest/gtest.h>

#include "pass_check.h"
#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/text.h"

namespace plimsoll::program {
namespace {

constexpr double kRounding = 1e-12;

Program fused(Program program) { return eliminate_dead_code(fuse_norm_relus(std::move(program))); }

TEST(FuseNormRelus, TakesInTheReluAndASum) {
  check_pass(R"(
input %x: f32[2,3,5]
input %q: f32[2,3,5]
parameter %w: f32[3]
parameter %b: f32[3]
%a, %m, %r = batch_norm(%x, %w, %b)
%y, %mask = relu(%a)
%c, %m2, %r2 = batch_norm(%x, %w, %b)
%s = add(%q, %c)
%z = relu(%s)
output %y
output %z
output %mask
output %m
output %r
output %m2
output %r2)",
             fused, R"(
input %x: f32[2,3,5]
input %q: f32[2,3,5]
parameter %w: f32[3]
parameter %b: f32[3]
%m, %r = batch_norm_statistics(%x)
%y, %mask = batch_norm_relu(%x, %m, %r, %w, %b)
%m2, %r2 = batch_norm_statistics(%x)
%z = batch_norm_relu(%x, %m2, %r2, %w, %b, %q)
output %y
output %z
output %mask
output %m
output %r
output %m2
output %r2)",
             kRounding);
}

// As running statistics are updated, before what is added is there.
TEST(FuseNormRelus, LeavesStatisticsWhereTheyWere) {
  check_pass(R"(
input %x: f32[2,3,5]
input %q: f32[2,3,5]
parameter %w: f32[3]
parameter %b: f32[3]
%a, %mean = batch_norm(%x, %w, %b)
%m = neg(%mean)
%y = relu(%a)
%c, %mean2 = batch_norm(%x, %w, %b)
%m2 = neg(%mean2)
%s = add(%c, %q)
%z, %mask = relu(%s)
%d = mask_backward(%q, %mask) {set=1, clear=0}
%d2, %dw = batch_norm_backward(%d, %x, %mean, %mean2, %w)
output %m
output %y
output %m2
output %z
output %mask
output %d2
output %dw)",
             fused, R"(
input %x: f32[2,3,5]
input %q: f32[2,3,5]
parameter %w: f32[3]
parameter %b: f32[3]
%mean, %a.rstd = batch_norm_statistics(%x)
%m = neg(%mean)
%y = batch_norm_relu(%x, %mean, %a.rstd, %w, %b)
%mean2, %c.rstd = batch_norm_statistics(%x)
%m2 = neg(%mean2)
%z, %mask = batch_norm_relu(%x, %mean2, %c.rstd, %w, %b, %q)
%d2, %dw = batch_norm_relu_backward(%q, %mask, %x, %mean, %mean2, %w)
output %m
output %y
output %m2
output %z
output %mask
output %d2
output %dw)",
             kRounding);
}

TEST(FuseNormRelus, KeepsTheSlopeThatOthersRead) {
  check_pass(R"(
input %dy: f32[2,3,5]
input %x: f32[2,3,5]
input %mean: f32[3]
input %rstd: f32[3]
parameter %w: f32[3]
%r, %mask = relu(%x)
%d = mask_backward(%dy, %mask) {set=1, clear=0}
%dx = batch_norm_backward(%d, %x, %mean, %rstd, %w)
%s = add(%d, %dx)
output %s
output %r
output %mask)",
             fused, R"(
input %dy: f32[2,3,5]
input %x: f32[2,3,5]
input %mean: f32[3]
input %rstd: f32[3]
parameter %w: f32[3]
%r, %mask = relu(%x)
%dx, _, _, %d = batch_norm_relu_backward(%dy, %mask, %x, %mean, %rstd, %w)
%s = add(%d, %dx)
output %s
output %r
output %mask)",
             kRounding);
}

TEST(FuseNormRelus, LeavesWhatOthersRead) {
  for (const char* text : {R"(
input %x: f32[2,3,5]
parameter %w: f32[3]
parameter %b: f32[3]
%a = batch_norm(%x, %w, %b)
%y = relu(%a)
output %a
output %y)",
                           R"(
input %x: f32[2,3,5]
parameter %w: f32[3]
parameter %b: f32[3]
%a = batch_norm(%x, %w, %b)
%s = add(%a, %a)
%y = relu(%s)
output %y)"}) {
    check_pass(text, fused, text);
  }
}

}  // namespace
}  // namespace plimsoll::program

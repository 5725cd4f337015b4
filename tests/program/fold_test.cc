// Views and constants.
#include <gtest/gtest.h>

#include "pass_check.h"
#include "plimsoll/program/passes/fold_constants.h"
#include "plimsoll/program/passes/fold_views.h"

namespace plimsoll::program {
namespace {

TEST(FoldViews, AReshapeOfAReshapeIsOne) {
  check_pass(R"(
input %x: f32[3,4]
%a = reshape(%x) {shape=[12]}
%b = reshape(%a) {shape=[2,-1]}
%y = exp(%b)
output %y)",
             fold_views, R"(
input %x: f32[3,4]
%b = reshape(%x) {shape=[2,6]}
%y = exp(%b)
output %y)");
}

TEST(FoldViews, TransposesThatUndoEachOtherVanish) {
  check_pass(R"(
input %x: f32[2,3,4]
%a = transpose(%x) {axes=[1,2,0]}
%b = transpose(%a) {axes=[2,0,1]}
%c = transpose(%a) {axes=[0,2,1]}
%y = exp(%b)
%z = exp(%c)
output %y
output %z)",
             fold_views, R"(
input %x: f32[2,3,4]
%c = transpose(%x) {axes=[1,0,2]}
%y = exp(%x)
%z = exp(%c)
output %y
output %z)");
}

TEST(FoldViews, WhatShowsItsOperandAsItIsIsTheOperand) {
  check_pass(R"(
input %x: f32[3,4]
%a = identity(%x)
%b = cast(%a) {dtype=f32}
%c = reshape(%b) {shape=[3,4]}
%d = expand(%c) {shape=[3,4]}
%y = exp(%d)
output %y)",
             fold_views, R"(
input %x: f32[3,4]
%y = exp(%x)
output %y)");
}

TEST(FoldViews, OutputsKeepTheirNames) {
  const std::string named = R"(
input %x: f32[3]
%e = exp(%x)
%y = identity(%e)
output %y)";
  check_pass(named, fold_views, named);
}

TEST(FoldViews, AReshapeThatCopiesMakesTheLastShapeAtOnce) {
  check_pass(R"(
input %x: f32[3,4]
%t = transpose(%x) {axes=[1,0]}
%copy = reshape(%t) {shape=[12]}
%b = reshape(%copy) {shape=[2,6]}
%y = exp(%b)
output %y)",
             fold_views, R"(
input %x: f32[3,4]
%t = transpose(%x) {axes=[1,0]}
%b = reshape(%t) {shape=[2,6]}
%y = exp(%b)
output %y)");
}

TEST(FoldViews, ACopyThatOthersReadIsNotMadeTwice) {
  const std::string shared = R"(
input %x: f32[3,4]
%t = transpose(%x) {axes=[1,0]}
%copy = reshape(%t) {shape=[12]}
%b = reshape(%copy) {shape=[2,6]}
%y = exp(%b)
%z = neg(%copy)
output %y
output %z)";
  check_pass(shared, fold_views, shared);
}

TEST(FoldViews, ACopyThatOthersComeToReadIsNotMadeTwice) {
  check_pass(R"(
input %x: f32[3,4]
%t = transpose(%x) {axes=[1,0]}
%copy = reshape(%t) {shape=[12]}
%same = identity(%copy)
%b = reshape(%copy) {shape=[2,6]}
%y = exp(%b)
%z = neg(%same)
output %y
output %z)",
             fold_views, R"(
input %x: f32[3,4]
%t = transpose(%x) {axes=[1,0]}
%copy = reshape(%t) {shape=[12]}
%b = reshape(%copy) {shape=[2,6]}
%y = exp(%b)
%z = neg(%copy)
output %y
output %z)");
}

TEST(FoldConstants, OpsOfConstantsAreConstants) {
  check_pass(R"(
input %x: f32[3]
%two = fill() {value=2, shape=[]}
%root = sqrt(%two)
%wide = expand(%root) {shape=[3]}
%e = exp(%wide)
%y = pow(%x, %x)
%z = maximum(%y, %e)
output %z)",
             fold_constants, R"(
input %x: f32[3]
%e = fill() {value=4.1132503787829275, shape=[3]}
%y = pow(%x, %x)
%z = maximum(%y, %e)
output %z)");
}

TEST(FoldConstants, AConstantOperandBecomesAnAttribute) {
  check_pass(R"(
input %x: f32[3]
%c = fill() {value=4, shape=[1]}
%a = mul(%x, %c)
%b = add(%c, %a)
%d = div(%b, %c)
%e = sub(%c, %d)
%f = sub(%e, %c)
%y = pow(%f, %c)
output %y)",
             fold_constants, R"(
input %x: f32[3]
%a = affine(%x) {scale=4}
%b = affine(%a) {shift=4}
%d = affine(%b) {scale=0.25}
%e = affine(%d) {scale=-1, shift=4}
%f = affine(%e) {shift=-4}
%y = pow_scalar(%f) {exponent=4}
output %y)");
}

TEST(FoldConstants, WhatWouldRoundDifferentlyOrChangeTheShapeStays) {
  const std::string stays = R"(
input %x: f32[3]
%third = fill() {value=3, shape=[1]}
%wide = fill() {value=2, shape=[2,3]}
%a = div(%x, %third)
%y = mul(%a, %wide)
output %y)";
  check_pass(stays, fold_constants, stays);
}

TEST(FoldConstants, TimesOneAndPlusZeroVanish) {
  check_pass(R"(
input %x: f32[3]
%one = fill() {value=1, shape=[]}
%zero = fill() {value=0, shape=[]}
%a = mul(%one, %x)
%b = add(%a, %zero)
%c = div(%b, %one)
%y = exp(%c)
output %y)",
             fold_constants, R"(
input %x: f32[3]
%y = exp(%x)
output %y)");
}

TEST(FoldConstants, WholeNumbersAndTruthsFoldToo) {
  check_pass(R"(
input %x: f32[2]
%seven = fill() {value=7, shape=[2], dtype=i64}
%real = cast(%seven) {dtype=f32}
%y = maximum(%x, %real)
output %y)",
             fold_constants, R"(
input %x: f32[2]
%real = fill() {value=7, shape=[2]}
%y = maximum(%x, %real)
output %y)");
}

}  // namespace
}  // namespace plimsoll::program

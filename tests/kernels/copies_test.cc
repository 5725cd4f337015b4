// Ops that only move elements, of arrays so large that several threads copy them.
#include <gtest/gtest.h>

#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

TEST(Copies, OnSeveralThreadsMoveEveryElement) {
  for (const char* text : {
           "input %x: f32[7,61,67]\n%t = transpose(%x) {axes=[2,0,1]}\n%y = reshape(%t) {shape=[469,61]}\noutput %y\n",
           "input %x: f32[1,211,129]\n%t = transpose(%x) {axes=[0,2,1]}\n%y = reshape(%t) {shape=[27219]}\noutput %y\n",
           "input %x: f32[3,61,99]\ninput %z: f32[3,61,98]\n%y = concat(%x, %z) {axis=2}\noutput %y\n",
           "input %x: f32[30011]\ninput %z: f32[5]\n%y = concat(%x, %z) {axis=0}\noutput %y\n",
           "input %x: f32[3,101,199]\n%s = slice(%x) {starts=[0,1,3], sizes=[3,50,196], steps=[1,2,1]}\n"
           "%y = reshape(%s) {shape=[29400]}\noutput %y\n",
           "input %x: f32[2,301,150]\n%s, %t = split(%x) {axis=2, sizes=[71,79]}\n%y = reshape(%s) {shape=[42742]}\n"
           "%z = reshape(%t) {shape=[47558]}\noutput %y\noutput %z\n",
       }) {
    expect_agreement_in_all_precisions(text);
  }
}

}  // namespace
}  // namespace plimsoll

// Kernels of steps in micro-batches, and convolutions of few channels, against the reference.
#include <gtest/gtest.h>

#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

using program::parse_program;

TEST(MicroBatchKernels, AddToSumsInPlace) {
  expect_agreement(parse_program("input %x: f32[17,31]\nstate %s: f32[17,31]\n%y = accumulate(%s, %x)\n"));
  expect_agreement(parse_program("state %s: f32[257]\n%y = clear(%s)\n"));
}

// Few rows take a way of their own.
TEST(MicroBatchKernels, AddProductsToSums) {
  for (const char* rows : {"1", "3", "16", "2,9", "40"}) {
    expect_agreement(
        parse_program(fmt::format("input %dy: f32[{0},5]\ninput %x: f32[{0},2500]\nstate %s: f32[5,2500]\n"
                                  "%y = linear_accumulate(%s, %dy, %x)\n",
                                  rows)));
  }
}

TEST(MicroBatchKernels, DropoutOfAMicroBatchDropsWhatTheWholeWould) {
  program::Arrays<double> given = random_values(
      parse_program("input %x: f32[3,70]\ninput %s: i64[2]\n%y = dropout(%x, %s) {rate=0.4, stream=5}\noutput %y\n"),
      {});
  given["s"].ints = {11, 4};
  expect_agreement(
      parse_program("input %x: f32[3,70]\ninput %s: i64[2]\n%y = dropout(%x, %s) {rate=0.4, stream=5}\noutput %y\n"),
      given, 1e-6);
}

TEST(NarrowConv, ForwardAndBackward) {
  for (const char* shapes : {"x: f32[2,3,9,66]\ninput %w: f32[8,3,3,3]", "x: f32[1,1,5,81]\ninput %w: f32[8,1,5,5]",
                             "x: f32[3,4,7,70]\ninput %w: f32[16,4,1,2]"}) {
    for (const char* padding : {"0", "1", "1,2,0,1"}) {
      const std::string conv =
          fmt::format("input %{}\n%y = conv(%x, %w) {{stride=[1], padding=[{}]}}\noutput %y\n", shapes, padding);
      SCOPED_TRACE(conv);
      expect_agreement(with_gradients(conv), {.tolerance = 1e-4});
    }
  }
}

}  // namespace
}  // namespace plimsoll

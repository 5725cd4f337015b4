// 3x3 convolutions that are large enough for Winograd's algorithm: oneDNN's where the machine has AVX-512, ours with
// narrower vectors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

// The transforms make numbers of a patch, and roundings with them, up to some 16 times as large as it is. The longest
// sums are those of weights, over all places of the batch.
constexpr int64_t kMostTerms = 2 * 70 * 66;

std::string conv_text(std::string_view x, int out, int in, std::string_view padding) {
  return fmt::format(
      "input %x: f32[{}]\ninput %w: f32[{},{},3,3]\ninput %b: f32[{}]\n%y = conv(%x, %w, %b) "
      "{{padding=[{}]}}\noutput %y\n",
      x, out, in, out, padding);
}

void check(const program::Program& program) {
  expect_agreement(program, {.tolerance = 16 * sum_tolerance(kMostTerms)});
}

TEST(Winograd, GivesValuesAndGradientsOfOddSizes) {
  check(with_gradients(conv_text("2,32,9,11", 32, 32, "1")));
  check(with_gradients(conv_text("1,48,17,6", 64, 48, "0,2,1,0")));
  check(with_gradients(conv_text("3,32,8,31", 48, 32, "2")));
  check(with_gradients(conv_text("1,32,8,10", 32, 32, "0")));
}

// More tiles than are computed together, and more output channels than are summed up together.
TEST(Winograd, WorksInChunks) {
  check(with_gradients(conv_text("2,32,70,66", 32, 32, "1")));
  check(with_gradients(conv_text("1,32,6,6", 272, 32, "1")));
}

TEST(Winograd, AddsToAResidual) {
  check(program::parse_program(
      "input %x: f32[2,32,13,9]\ninput %w: f32[32,32,3,3]\ninput %b: f32[32]\ninput %q: f32[2,32,13,9]\n%r = neg(%q)\n"
      "%y = conv_epilogue(%x, %w, %b, %r) {padding=[1], residual=true, relu=true}\noutput %y\n"));
}

// A padding beyond the kernel's reach leaves no convolution of dy to take; and a tight budget takes the direct way.
TEST(Winograd, LeavesToTheDirectAlgorithmWhatItCannotDo) {
  check(with_gradients(conv_text("1,32,8,10", 32, 32, "3")));
  const program::Program program = program::parse_program(conv_text("4,32,40,40", 32, 32, "1"));
  const auto scratch = [&](bool least) {
    int64_t most = 0;
    for (const int64_t bytes : kernels::prepare(program, {.threads = 1, .least_scratch = least}).scratch_bytes()) {
      most = std::max(most, bytes);
    }
    return most;
  };
  EXPECT_LE(scratch(true), scratch(false));
}

}  // namespace
}  // namespace plimsoll

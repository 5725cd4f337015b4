#include "plimsoll/kernels/blocking.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/dnnl_primitives.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

using kernels::block_channels;
using kernels::Blocked;
using program::parse_program;
using program::Program;

const std::string kStart = "input %x: f32[2,16,9,11]\ninput %w: f32[32,16,3,3]\ninput %v: f32[32,32,3,3]\n";

bool is_blocked(const Blocked& blocked, std::string_view name) {
  return blocked.values[static_cast<size_t>(blocked.program.find(name).index)];
}

int64_t count_of(const Blocked& blocked, std::string_view op) {
  const auto& ops = blocked.program.ops;
  return std::count_if(ops.begin(), ops.end(), [&](const program::Op& found) { return found.def->name == op; });
}

// Also where the machine's convolutions gain nothing by it, which then run without.
class Blocking : public testing::Test {
 protected:
  static Blocked block(const std::string& text) { return block_channels(parse_program(text), kernels::cpu_kernels()); }
};

TEST_F(Blocking, KeepsWhatStandsBetweenConvolutionsInBlocks) {
  const Blocked blocked = block(kStart +
                                "%a = conv(%x, %w) {padding=[1]}\n%b = relu(%a)\n%c = max_pool(%b) {kernel=[2], "
                                "stride=[2]}\n%d = conv(%c, %v)\n%y = sum(%d)\noutput %y\n");
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(is_blocked(blocked, name)) << name;
  EXPECT_FALSE(is_blocked(blocked, "x"));
  EXPECT_EQ(count_of(blocked, "reorder"), 0);
}

TEST_F(Blocking, KeepsResidualsAsTheResultsThatTheyAreAddedTo) {
  const std::string start = "input %q: f32[2,32,9,11]\n" + kStart + "%a = conv(%x, %w) {padding=[1]}\n";
  const std::string end = "%z = conv(%y, %v) {padding=[1]}\n%s = sum(%z)\noutput %s\n";
  const std::string sum = "%y = conv_epilogue(%a, %v, %r) {padding=[1], residual=true}\n";
  const Blocked within = block(start + "%r = relu(%a)\n" + sum + end);
  for (const char* name : {"a", "r", "y"}) EXPECT_TRUE(is_blocked(within, name)) << name;
  EXPECT_EQ(count_of(within, "reorder"), 0);
  const Blocked from_outside = block(start + "%y = conv_epilogue(%a, %v, %q) {padding=[1], residual=true}\n" + end);
  EXPECT_TRUE(is_blocked(from_outside, "y"));
  EXPECT_EQ(count_of(from_outside, "reorder"), 1);
}

TEST_F(Blocking, LeavesWhatTheCallerSeesInRowMajorOrder) {
  const Blocked blocked = block(kStart + "%a = conv(%x, %w)\n%b = relu(%a)\n%y = conv(%b, %v)\noutput %b\noutput %y\n");
  EXPECT_FALSE(is_blocked(blocked, "b"));
  EXPECT_FALSE(is_blocked(blocked, "y"));
}

TEST_F(Blocking, ReordersWhereAnOpKnowsNoBlocks) {
  const Blocked blocked = block(kStart +
                                "%a = conv(%x, %w) {padding=[1]}\n%b = conv(%a, %v) {padding=[1]}\n%c = add(%a, %b)\n"
                                "%s = softmax(%c) {axis=1}\n%y = sum(%s)\noutput %y\n");
  EXPECT_TRUE(is_blocked(blocked, "c"));
  EXPECT_EQ(count_of(blocked, "reorder"), 1);
  EXPECT_TRUE(blocked.program.find("c.plain"));
}

TEST_F(Blocking, IsNotWorthIntroducingForNothing) {
  const Blocked blocked = block("input %x: f32[2,16,9,11]\n%a = exp(%x)\n%b = relu(%a)\n%y = sum(%b)\noutput %y\n");
  EXPECT_EQ(std::count(blocked.values.begin(), blocked.values.end(), true), 0);
}

// Whole chains with all gradients against the reference, where every kernel that knows blocks works on them.
TEST_F(Blocking, GivesTheValuesOfTheReference) {
  const std::string first = kStart + "%a = conv(%x, %w) {padding=[1]}\n";
  const std::string last = "%z = conv(%m, %v) {padding=[1]}\noutput %z\n";
  for (const std::string& middle : std::vector<std::string>{
           "%m = relu(%a)\n", "%b = silu(%a)\n%m = add(%b, %a)\n",
           "%b = leaky_relu(%a)\n%m = clamp(%b) {low=-0.5, high=0.5}\n", "%m = gelu_tanh(%a)\n",
           "%b = relu(%a)\n%m = max_pool(%b) {kernel=[3], stride=[2], padding=[1]}\n",
           "%m = avg_pool(%a) {kernel=[2], stride=[2]}\n", "%m = max_pool(%a) {kernel=[5,4], ceil_mode=true}\n",
           "%m = adaptive_avg_pool(%a) {size=[3,2]}\n", "%m = adaptive_max_pool(%a) {size=[3,2]}\n",
           "%b = softmax(%a) {axis=1}\n%m = mul(%a, %b)\n"}) {
    SCOPED_TRACE(middle);
    expect_agreement(with_gradients(first + middle + last), {.tolerance = 2e-4});
  }
}

TEST_F(Blocking, UnfoldsImagesInBlocks) {
  expect_agreement(with_gradients("input %x: f32[2,16,32,16]\ninput %w: f32[16,16,3,3]\ninput %v: f32[48,16,16,16]\n"
                                  "%a = conv(%x, %w) {padding=[1]}\n%b = relu(%a)\n%z = conv(%b, %v) {stride=[16]}\n"
                                  "output %z\n"),
                   {.tolerance = 2e-4});
}

TEST_F(Blocking, NormalisesChannelsInBlocks) {
  const std::string text = "input %g: f32[32]\ninput %h: f32[32]\n" + kStart +
                           "%a = conv(%x, %w, %h) {padding=[1]}\n%b = batch_norm(%a, %g, %h)\n%c = relu(%b)\n"
                           "%z = conv(%c, %v) {padding=[1]}\n%u = adaptive_avg_pool(%z) {size=[1]}\noutput %u\n";
  expect_agreement(with_gradients(text), {.tolerance = 5e-4});
  expect_agreement(with_gradients("input %g: f32[32]\ninput %h: f32[32]\nstate %mean: f32[32]\nstate %var: f32[32]\n" +
                                  kStart + "%a = conv(%x, %w)\n%b = batch_norm_inference(%a, %mean, %var, %g, %h)\n" +
                                  "%z = conv_transpose(%b, %v, %h)\noutput %z\n"),
                   {.low = 0.1, .high = 1, .tolerance = 1e-3});
}

// oneDNN's scratch for Winograd's algorithm is some 7 MB at least, so only images of that order take it; these do, in
// parts of the batch. Smaller ones take the direct algorithm.
TEST_F(Blocking, TakesWinogradWithinItsRounding) {
  if (kSanitized) GTEST_SKIP() << "the reference takes a minute for what oneDNN alone computes";
  expect_agreement(with_gradients("input %x: f32[2,32,96,96]\ninput %w: f32[32,32,3,3]\ninput %b: f32[32]\n"
                                  "%y = conv(%x, %w, %b) {padding=[1]}\noutput %y\n"),
                   {.tolerance = 1e-4});
}

TEST_F(Blocking, TakesNoFasterWayThatNeedsMoreScratchWhenTold) {
  const Program program = parse_program(
      "input %x: f32[4,64,32,32]\ninput %w: f32[64,64,3,3]\n%y = conv(%x, %w) {padding=[1]}\noutput %y\n");
  const auto scratch = [&](bool least) {
    return kernels::prepare(program, {.least_scratch = least}).ops[0].kernel.scratch_bytes;
  };
  // By Winograd's algorithm, oneDNN's, or ours where it has none; in blocks, oneDNN 3 has none and ours is not used.
  if (!kernels::dnnl_has_winograd() && kernels::dnnl_prefers_blocks()) {
    EXPECT_EQ(scratch(true), scratch(false));
  } else {
    EXPECT_LT(scratch(true), scratch(false));
  }
}

}  // namespace
}  // namespace plimsoll

// f16 and bf16 on operands so large that they are computed in pieces, and in blocks of channels: against the same
// kernels in f32, which other tests hold against the reference.
#include "plimsoll/kernels/cpu/support/low_precision.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "tests/kernels/against_reference.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

using program::Program;

// "half" in the text stands for the dtype. Rounding may make another element the largest, so no gradients go through
// that.
Program in_precision(std::string text, const std::string& dtype) {
  for (size_t at = text.find("half"); at != std::string::npos; at = text.find("half")) text.replace(at, 4, dtype);
  return text.find("max_pool(%c)") == std::string::npos ? with_gradients(text) : program::parse_program(text);
}

// `tolerance` is of the largest element; `each` of the element itself.
void expect_near(const std::vector<float>& found, const std::vector<float>& expected, double tolerance,
                 double each = 0) {
  ASSERT_EQ(found.size(), expected.size());
  double scale = 1e-3;
  for (const float e : expected) scale = std::max(scale, std::abs(static_cast<double>(e)));
  for (size_t i = 0; i < found.size(); ++i) {
    const double off = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    const double own = each * std::abs(static_cast<double>(expected[i]));
    if (!(off <= tolerance * scale + own)) FAIL() << found[i] << " at " << i << ", expected " << expected[i];
  }
}

void expect_as_in_f32(const std::string& text, double least_tolerance = 0) {
  for (const auto& [dtype, tolerance] : {std::pair("bf16", 0.016), std::pair("f16", 0.002)}) {
    if (kSanitized && dtype == std::string("f16")) continue;  // the same code but for the rounding
    const Program half = in_precision(text, dtype);
    program::Arrays<double> values = random_values(half, {});
    const auto found = outputs_of(half, values, {.threads = 2});
    const Program wide = in_precision(text, "f32");
    for (auto& [name, array] : values) array.dtype = wide[wide.find(name)].type.dtype;
    const auto expected = outputs_of(wide, values, {.threads = 2});
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(fmt::format("{}: output {} of\n{}", dtype, i, program::write_program(half)));
      expect_near(found[i], expected[i], std::max(tolerance, least_tolerance));
    }
  }
}

TEST(LowPrecisionLanes, GoByPieces) {
  for (const char* text : {
           "input %x: half[5,41,101]\n%y = gelu_tanh(%x)\noutput %y\n",
           "input %x: half[5,41,101]\n%y = relu(%x)\noutput %y\n",
           "input %x: half[64,33,31]\ninput %z: half[33,1]\n%y = mul(%x, %z)\noutput %y\n",
           "input %x: half[40,60]\ninput %z: half[40,60]\n%t = transpose(%x) {axes=[1,0]}\n"
           "%u = transpose(%z) {axes=[1,0]}\n%y = add(%t, %u)\noutput %y\n",
           "input %x: half[0,5]\ninput %w: half[3,5]\ninput %b: half[3]\n%y = linear(%x, %w, %b)\noutput %y\n",
           "input %x: half[0,3,9,9]\ninput %w: half[4,3,3,3]\n%y = conv(%x, %w)\noutput %y\n",
           "input %x: half[300,1001]\n%y = softmax(%x)\noutput %y\n",
           "input %x: half[30,1001]\n%y = softmax(%x) {axis=0}\noutput %y\n",
           "input %x: half[160,3,1311]\ninput %w: f32[1311]\ninput %b: f32[1311]\n%y = layer_norm(%x, %w, %b)\n"
           "output %y\n",
           "input %x: half[41,3,171]\ninput %w: f32[171]\n%y = rms_norm(%x, %w)\noutput %y\n",
           "input %x: half[33,17,19,21]\n%y = max_pool(%x) {kernel=[3], stride=[2], padding=[1]}\noutput %y\n",
           "input %x: half[33,17,19,21]\n%y = avg_pool(%x) {kernel=[2], stride=[2]}\noutput %y\n",
           "input %q: half[5,2,130,32]\ninput %k: half[5,2,130,32]\ninput %v: half[5,2,130,32]\n"
           "%y = attention(%q, %k, %v) {causal=true}\noutput %y\n",
           "input %x: half[300,1001]\ninput %t: i64[300]\n%y = cross_entropy(%x, %t) {reduction=sum}\noutput %y\n",
           "input %x: half[3,40001]\ninput %s: i64[]\n%y = dropout(%x, %s) {rate=0.3, stream=7}\noutput %y\n",
           "input %x: half[33,19,21,23]\n%y = resize(%x) {size=[30,15], mode=linear}\noutput %y\n",
           "input %x: half[9,12,50,51]\ninput %w: half[12]\ninput %b: half[12]\n"
           "%y = group_norm(%x, %w, %b) {groups=4}\noutput %y\n",
           "input %x: half[97,41,101]\n%y = sum(%x) {axes=[1]}\noutput %y\n",
           "input %x: half[997,401]\n%y = sum(%x) {axes=[0]}\noutput %y\n",
           "input %x: half[97,41,101]\n%y = mean(%x) {axes=[1,2], keepdims=true}\noutput %y\n",
           "input %x: half[41,97,101]\n%t = transpose(%x) {axes=[1,0,2]}\n%y = mean(%t) {axes=[1]}\noutput %y\n",
           "input %x: half[97,41,101]\n%y = var(%x) {axes=[2]}\noutput %y\n",
           "input %x: half[97,41,101]\n%y = norm2(%x) {axes=[1]}\noutput %y\n",
           "input %x: half[97,41,101]\n%y, %i = max(%x) {axes=[1]}\noutput %y\n",
           "input %x: half[0,5]\n%y = sum(%x) {axes=[1]}\noutput %y\n",
           "input %w: half[500,97]\ninput %i: i64[700]\n%y = embedding(%w, %i)\noutput %y\n",
       }) {
    expect_as_in_f32(text);
  }
}

// No copies of whole operands: what is in scratch is a small part of them.
TEST(LowPrecisionLanes, TakeLittleScratch) {
  for (const char* text : {
           "input %x: bf16[64,32,64,64]\n%y = resize(%x) {size=[32,32], mode=linear}\noutput %y\n",
           "input %x: bf16[256,32,64,64]\n%y = group_norm(%x) {groups=4}\noutput %y\n",
           "input %x: bf16[4096,2048]\n%y = sum(%x) {axes=[0]}\noutput %y\n",
           "input %x: bf16[4096,2048]\n%y = mean(%x) {axes=[1]}\noutput %y\n",
           "input %x: bf16[4096,2048]\n%y = prod(%x) {axes=[1]}\noutput %y\n",
       }) {
    const Program program = with_gradients(text);
    const int64_t bytes = program[program.inputs[0]].type.bytes().constant();
    for (const int64_t scratch : kernels::prepare(program, {.threads = 2}).scratch_bytes()) {
      EXPECT_LT(scratch, bytes / 4) << text;
    }
  }
}

// Pieces of the batch, whose weights' gradients are added up.
TEST(LowPrecisionLanes, GoByPiecesThroughProducts) {
  for (const char* text : {
           "input %x: half[350,5,171]\ninput %w: half[257,171]\ninput %b: half[257]\n%y = linear(%x, %w, %b)\noutput "
           "%y\n",
           "input %x: half[2,3,171]\ninput %w: half[3100,171]\ninput %b: half[3100]\n%y = linear(%x, %w, %b)\noutput "
           "%y\n",
           "input %x: half[1,1000]\ninput %w: half[777,1000]\n%y = linear(%x, %w)\noutput %y\n",
           "input %a: half[17,130,60]\ninput %b: half[17,60,150]\n%y = matmul(%a, %b)\noutput %y\n",
           "input %x: half[5,16,48,50]\ninput %w: half[32,16,3,3]\ninput %b: half[32]\n%y = conv(%x, %w, %b) "
           "{padding=[1]}\n"
           "output %y\n",
           "input %x: half[5,3,90,91]\ninput %w: half[16,3,3,3]\n%y = conv(%x, %w)\noutput %y\n",
       }) {
    expect_as_in_f32(text);
  }
}

TEST(LowPrecisionLanes, StayInBlocksOfChannels) {
  expect_as_in_f32(
      "input %x: half[3,16,24,24]\ninput %w1: half[32,16,3,3]\ninput %s: f32[32]\ninput %b: f32[32]\n"
      "input %w2: half[48,32,3,3]\n%c = conv(%x, %w1) {padding=[1]}\n%n = batch_norm(%c, %s, %b)\n%r = relu(%n)\n"
      "%p = avg_pool(%r) {kernel=[2], stride=[2]}\n%d = conv(%p, %w2) {padding=[1]}\n%g = avg_pool(%d) {kernel=[4]}\n"
      "%y = sigmoid(%g)\noutput %y\n",
      0.15);  // ReLU lets other elements through that are all but zero
  expect_as_in_f32(
      "input %x: half[3,16,24,24]\ninput %w: half[32,16,3,3]\ninput %v: half[16,32,3,3]\n%c = conv(%x, %w)\n"
      "%p = max_pool(%c) {kernel=[2], stride=[2]}\n%d = conv(%p, %v) {padding=[1]}\noutput %d\n",
      0.03);
}

// Where the channels lie makes no difference but that sums are added in another order, or by another algorithm, which
// may move a result across a rounding of bf16: by one unit of its last place, 2^-7 of the result at most. On the way to
// a gradient of x there are eight such tensors (c, r, p, d, y and the gradients of d, p and c), and the sums that moved
// results go into move by half a unit of the largest, 2^-9, for each at most. The convolutions make values lie so, the
// gradients go through max_pool, and the second convolution's bias is a sum over channels.
TEST(LowPrecisionLanes, LieWithTheirChannelsLast) {
  const std::string before =
      "input %x: bf16[3,16,21,23]\ninput %w: bf16[48,16,3,3]\ninput %v: bf16[32,48,3,3]\ninput %b: bf16[32]\n"
      "%c = conv(%x, %w) {padding=[1]}\n";
  const std::string after = "%d = conv(%p, %v, %b) {padding=[1]}\n%y = sigmoid(%d)\noutput %y\n";
  constexpr double kUlp = 1.0 / 128;
  constexpr double kLast = 8.0 / 512;  // of sums that such results go into
  for (const auto& [between, tolerance] : {
           std::pair("%r = relu(%c)\n%p = max_pool(%r) {kernel=[3], stride=[2], padding=[1]}\n", kLast),
           std::pair("%p = max_pool(%c) {kernel=[2], stride=[2]}\n", kLast),
           std::pair("%p = max_pool(%c) {kernel=[3], dilation=[2]}\n", kLast),
           std::pair("%r = relu(%c)\n%p = avg_pool(%r) {kernel=[3], stride=[2], padding=[1]}\n", kLast),
           std::pair("%p = adaptive_avg_pool(%c) {size=[5,4]}\n", kLast),
           std::pair("%p = adaptive_max_pool(%c) {size=[5,4]}\n", kLast),
           std::pair("input %s: f32[48]\ninput %h: f32[48]\n%p = batch_norm(%c, %s, %h)\n", kLast),
       }) {
    const Program program = with_gradients(before + between + after);
    const auto values = random_values(program, {});
    for (const int threads : {1, 2}) {
      const auto found = outputs_of(program, values, {.threads = threads, .amx_tiles = true});
      const auto expected = outputs_of(program, values, {.threads = threads, .amx_tiles = false});
      for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(fmt::format("output {} of\n{}", i, program::write_program(program)));
        expect_near(found[i], expected[i], tolerance, kUlp);
      }
    }
  }
}

TEST(LowPrecisionLanes, HaveTheSameBitsTwice) {
  const Program program = in_precision(
      "input %x: half[350,5,171]\ninput %w: half[257,171]\ninput %b: half[257]\n%z = linear(%x, %w, %b)\n"
      "%y = layer_norm(%z)\noutput %y\n",
      "bf16");
  const auto values = random_values(program, {});
  EXPECT_EQ(outputs_of(program, values, {.threads = 2}), outputs_of(program, values, {.threads = 2}));
}

TEST(LowPrecisionLanes, UpdateInPlace) {
  expect_agreement(program::parse_program(
      "input %g: bf16[40001]\ninput %r: f32[]\nparameter %w: bf16[40001]\nstate %v: bf16[40001]\n"
      "%n, %m = momentum(%w, %g, %v, %r) {weight_decay=0.1} @update\n"));
  expect_agreement(program::parse_program("input %x: f16[40001]\nstate %s: f16[40001]\n%y = accumulate(%s, %x)\n"));
}

// In vectors as one by one; the last ones of a line, too.
TEST(LowPrecisionLanes, AreRoundedInVectorsAlike) {
  using namespace kernels;
  std::vector<uint16_t> all(65536 - 3);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto check = [&](DType dtype, float (*from)(uint16_t), uint16_t (*to)(float)) {
    std::vector<float> wide(all.size());
    low_precision_lines(dtype).upcast(wide.data(), all.data(), static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(std::isnan(wide[i]) ? std::isnan(from(all[i])) : wide[i] == from(all[i])) << i;
      wide[i] += wide[i] * 0x1.3p-10F;
    }
    std::vector<uint16_t> downcast(all.size());
    low_precision_lines(dtype).downcast(downcast.data(), wide.data(), static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(std::isnan(wide[i]) || downcast[i] == to(wide[i])) << wide[i];
  };
  check(DType::bf16, from_bf16, to_bf16);
  check(DType::f16, from_f16, to_f16);
}

}  // namespace
}  // namespace plimsoll

// Products of bytes against the reference in f32: bytes are equal, and results are to a few roundings of their scaling,
// so that a sum that is cut off, or weights that are halved, would show.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "tests/kernels/against_reference.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

using program::Arrays;
using program::parse_program;
using program::Program;
using program::Value;

Arrays<float> narrowed(const Arrays<double>& values) {
  Arrays<float> narrow;
  for (const auto& [name, array] : values) {
    program::Array<float> made({array.dtype, array.shape});
    for (size_t i = 0; i < array.reals.size(); ++i) made.reals[i] = static_cast<float>(array.reals[i]);
    made.ints = array.ints;
    narrow[name] = std::move(made);
  }
  return narrow;
}

// Bytes are multiplied in f32 where the machine does not do it; sums above 2^24 are rounded then.
double tolerance() { return kernels::dnnl_multiplies_bytes() ? 4e-7 : 1e-5; }

void expect_floats(std::span<const float> found, const std::vector<float>& expected, const std::string& name) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const float e : expected) largest = std::max(largest, std::isfinite(e) ? std::abs(double{e}) : 0);
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    ASSERT_NEAR(found[i], expected[i], tolerance() * largest) << name << " at " << i;
  }
}

void expect_bytes(run::Executor& executor, Value value, const std::vector<int64_t>& expected) {
  const bool is_signed = executor.program()[value].type.dtype == DType::i8;
  const std::vector<uint8_t> found = executor.read<uint8_t>(value);
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(is_signed ? static_cast<int8_t>(found[i]) : found[i], expected[i]) << "byte " << i;
  }
}

void expect_same(const Program& program, const Arrays<double>& values) {
  const auto expected = program::evaluate<float>(program, narrowed(values)).outputs;
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(fmt::format("{} threads\n{}", threads, program::write_program(program)));
    run::Session session(program, on_test_device(threads), machine_budget());
    run::Executor& executor = session.executor();
    load(executor, values);
    executor.step();
    for (const Value value : program.outputs) {
      const auto& right = expected.at(program[value].name);
      if (is_floating(right.dtype)) {
        expect_floats(executor.read<float>(value), right.reals, program[value].name);
      } else {
        expect_bytes(executor, value, right.ints);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Numbers of both signs, and near the largest, where sums of products are largest.
constexpr Comparison kBothSigns = {.low = -1, .high = 1};
constexpr Comparison kLarge = {.low = 0.9, .high = 1};

void expect_same(const std::string& text, const Comparison& range) {
  const Program program = parse_program(text);
  expect_same(program, random_values(program, range));
}

void expect_same_in_all_ranges(const std::string& text) {
  for (const Comparison& range : {kBothSigns, kLarge}) expect_same(text, range);
}

std::string conv_text(const std::string& x, const std::string& w, const std::string& attributes, const char* dtype) {
  const std::string channels = w.substr(0, w.find(','));
  return fmt::format(
      "input %x: f32[{}]\ninput %k: f32[{}]\ninput %b: f32[{}]\n%q, %s = quantize(%x) {{dtype={}}}\n"
      "%w, %ws = quantize(%k)\n%y = conv_i8(%q, %w, %s, %ws, %b) {{{}}}\n%z = conv_i8(%q, %w, %s, %ws) {{{}}}\n"
      "output %q\noutput %y\noutput %z\n",
      x, w, channels, dtype, attributes, attributes);
}

TEST(ByteKernels, Quantize) {
  for (const char* shape : {"1,1", "3,17", "1,40000", "2,16,9,31", "257,3", "5,16,3", "2,0"}) {
    for (const char* call : {"quantize(%x)", "quantize(%x) {dtype=u8}", "quantize_rows(%x)"}) {
      expect_same_in_all_ranges(fmt::format("input %x: f32[{}]\n%q, %s = {}\noutput %q\noutput %s\n", shape, call));
    }
  }
}

TEST(ByteKernels, WhatIsNotFiniteComesOutAsNaN) {
  const Program program = parse_program(
      "input %x: f32[3,5]\ninput %k: f32[2,5]\n%q, %s = quantize_rows(%x)\n%w, %ws = quantize(%k)\n"
      "%y = linear_i8(%q, %w, %s, %ws)\noutput %q\noutput %y\n");
  Arrays<double> values = random_values(program, {});
  values["x"].reals[1] = std::numeric_limits<double>::quiet_NaN();
  values["x"].reals[7] = -std::numeric_limits<double>::infinity();
  expect_same(program, values);
  EXPECT_TRUE(std::isnan(program::evaluate<float>(program, narrowed(values)).outputs.at("y").reals[2]));
}

TEST(ByteKernels, Conv) {
  struct Case {
    const char* x;
    const char* w;
    const char* attributes;
  };
  for (const auto& [x, w, attributes] : {
           Case{"1,1,1,1", "1,1,1,1", "stride=[1]"},
           Case{"3,17,9,7", "31,17,3,3", "padding=[1]"},
           Case{"2,3,31,17", "16,3,7,7", "padding=[3], stride=[2]"},
           Case{"1,64,9,9", "48,64,1,1", "stride=[2]"},
           Case{"2,15,8,9", "9,5,3,3", "groups=3, padding=[0,1,2,1]"},
           Case{"2,32,12,12", "32,1,3,3", "groups=32, padding=[1]"},
           Case{"2,64,7,7", "64,16,3,3", "groups=4, dilation=[2], padding=[2]"},
           Case{"2,5,257", "3,5,31", "stride=[3]"},
           Case{"1,4,5,6,7", "8,4,3,2,3", "padding=[1]"},
           Case{"1,16,3,3", "16,16,3,3", "stride=[1]"},
       }) {
    expect_same(conv_text(x, w, attributes, "i8"), kBothSigns);
    expect_same(conv_text(x, w, attributes, "u8"), kLarge);
  }
}

// So many sums that the kernel works on some samples, or some channels of one, at a time.
TEST(ByteKernels, ConvInParts) {
  expect_same(conv_text("1,2,70,70", "64,2,1,1", "stride=[1]", "i8"), kLarge);
  expect_same(conv_text("6,3,41,40", "48,3,1,1", "stride=[1]", "u8"), kBothSigns);
}

// Images stay in blocks of channels between them, as bytes, too.
TEST(ByteKernels, ConvInBlocks) {
  expect_same_in_all_ranges(
      "input %x: f32[2,32,10,9]\ninput %k: f32[48,32,3,3]\ninput %l: f32[16,48,3,3]\n%q, %s = quantize(%x)\n"
      "%w, %ws = quantize(%k)\n%v, %vs = quantize(%l)\n%a = conv_i8(%q, %w, %s, %ws) {padding=[1]}\n%r = relu(%a)\n"
      "%p, %ps = quantize(%r) {dtype=u8}\n%y = conv_i8(%p, %v, %ps, %vs)\noutput %y\n");
}

TEST(ByteKernels, Linear) {
  for (const auto& [x, in, out] : {std::tuple("1", 1, 1), std::tuple("17", 259, 131), std::tuple("2,3", 31, 257),
                                   std::tuple("1", 4100, 3), std::tuple("520", 17, 520), std::tuple("3", 0, 2)}) {
    for (const auto& [dtype, range] : {std::pair("i8", kBothSigns), std::pair("i8", kLarge), std::pair("u8", kLarge)}) {
      expect_same(fmt::format("input %x: f32[{0},{1}]\ninput %k: f32[{2},{1}]\ninput %b: f32[{2}]\n"
                              "%q, %s = quantize_rows(%x) {{dtype={3}}}\n%w, %ws = quantize(%k)\n"
                              "%y = linear_i8(%q, %w, %s, %ws, %b)\n%z = linear_i8(%q, %w, %s, %ws)\n"
                              "output %y\noutput %z\n",
                              x, in, out, dtype),
                  range);
    }
  }
}

// Whose products 32 bits do not hold.
TEST(ByteKernels, LinearOfVeryLongRows) {
  expect_same(
      "input %x: f32[2,80001]\ninput %k: f32[2,80001]\ninput %b: f32[2]\n%q, %s = quantize_rows(%x) {dtype=u8}\n"
      "%w, %ws = quantize(%k)\n%y = linear_i8(%q, %w, %s, %ws, %b)\noutput %y\n",
      kLarge);
}

TEST(ByteKernels, ReadViews) {
  expect_same_in_all_ranges(
      "input %x: f32[7,5]\ninput %k: f32[9,7]\n%t = transpose(%x) {axes=[1,0]}\n%q, %s = quantize_rows(%t)\n"
      "%w, %ws = quantize(%k)\n%h = slice(%w) {starts=[1,0], sizes=[4,7], steps=[2,1]}\n"
      "%hs = slice(%ws) {starts=[1], sizes=[4], steps=[2]}\n%y = linear_i8(%q, %h, %s, %hs)\n"
      "%z, %zs = quantize_rows(%x)\n%f = transpose(%z) {axes=[1,0]}\n%v = linear_i8(%f, %h, %s, %hs)\n"
      "output %y\noutput %v\n");
  expect_same_in_all_ranges(
      "input %x: f32[5,4,7,2]\ninput %k: f32[4,3,3,3]\n%q, %s = quantize(%x)\n%w, %ws = quantize(%k)\n"
      "%t = transpose(%q) {axes=[0,3,1,2]}\n%v = slice(%w) {starts=[0,1,0,0], sizes=[4,2,3,3], steps=[1,1,1,1]}\n"
      "%y = conv_i8(%t, %v, %s, %ws) {padding=[1]}\noutput %y\n");
}

TEST(ByteKernels, Embedding) {
  const std::string text =
      "input %k: f32[31,17]\ninput %i: i64[2,5]\n%w, %ws = quantize(%k)\n%y = embedding_i8(%w, %i, %ws)\noutput %y\n";
  Arrays<double> values = random_values(parse_program(text), {});
  values["i"].ints = {0, 30, 7, 7, 1, 2, 3, 29, 0, 5};
  expect_same(parse_program(text), values);
  run::Session session(parse_program(text), on_test_device(), machine_budget());
  values["i"].ints[3] = 31;
  load(session.executor(), values);
  EXPECT_THROW(session.executor().step(), ArgumentError);
}

// The same on a machine that has no instructions for products of bytes, as far as oneDNN is told.
TEST(ByteKernelsElsewhere, WithoutVnni) {
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
  EXPECT_EQ(
      std::system(
          fmt::format("DNNL_MAX_CPU_ISA=AVX2 {} --gtest_brief=1 --gtest_filter='ByteKernels.Conv*:ByteKernels.Linear*'",
                      self)
              .c_str()),
      0);
}

}  // namespace
}  // namespace plimsoll

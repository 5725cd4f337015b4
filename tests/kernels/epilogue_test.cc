// Products with epilogues against the reference, wherever the residual lies; and against the ops that they stand for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/memory/limits.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "tests/kernels/against_reference.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

using program::parse_program;

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

void check(const std::string& text) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    std::string typed = text;
    replace_all(typed, "f32", dtype);
    expect_agreement(parse_program(typed), {.tolerance = 2e-4});
  }
}

struct Product {
  std::string inputs, call, y, attributes = {};
};

const Product kProducts[] = {
    {"input %x: f32[2,3,9,11]\ninput %w: f32[5,3,3,3]\n", "conv_epilogue(%x, %w", "[2,5,9,11]", ", padding=[1]"},
    {"input %x: f32[2,16,9,9]\ninput %w: f32[32,16,3,3]\ninput %b: f32[32]\n", "conv_epilogue(%x, %w, %b", "[2,32,5,5]",
     ", padding=[1], stride=[2]"},
    {"input %x: f32[2,4,9,9]\ninput %w: f32[6,2,3,3]\ninput %b: f32[6]\n", "conv_epilogue(%x, %w, %b", "[2,6,7,7]",
     ", groups=2"},
    {"input %x: f32[2,3,6,70]\ninput %w: f32[8,3,3,3]\ninput %b: f32[8]\n", "conv_epilogue(%x, %w, %b", "[2,8,4,68]"},
    {"input %x: f32[3,5,17]\ninput %w: f32[31,17]\ninput %b: f32[31]\n", "linear_epilogue(%x, %w, %b", "[3,5,31]"},
    {"input %x: f32[2,64]\ninput %w: f32[600,64]\ninput %b: f32[600]\n", "linear_epilogue(%x, %w, %b", "[2,600]"},
    {"input %x: f32[4200,80]\ninput %w: f32[3,80]\n", "linear_epilogue(%x, %w", "[4200,3]"},
    {"input %x: f32[5,0]\ninput %w: f32[7,0]\ninput %b: f32[7]\n", "linear_epilogue(%x, %w, %b", "[5,7]"},
    {"input %x: f32[2,3,5,7]\ninput %w: f32[3,4,7]\n", "matmul_epilogue(%x, %w", "[2,3,5,4]", ", transpose_b=true"},
};

TEST(Epilogue, CutsAtZero) {
  for (const Product& p : kProducts) {
    check(fmt::format("{}%y = {}) {{relu=true{}}}\noutput %y\n", p.inputs, p.call, p.attributes));
    check(fmt::format("{}%y, %m = {}) {{relu=true{}}}\noutput %y\noutput %m\n", p.inputs, p.call, p.attributes));
  }
}

TEST(Epilogue, AddsAResidualInPlaceOrNot) {
  for (const Product& p : kProducts) {
    for (const char* relu : {"false", "true"}) {
      for (const char* kept : {"", "output %r\n"}) {
        check(fmt::format("{}input %q: f32{}\n%r = neg(%q)\n%y = {}, %r) {{residual=true, relu={}{}}}\noutput %y\n{}",
                          p.inputs, p.y, p.call, relu, p.attributes, kept));
      }
    }
  }
}

TEST(Epilogue, AddsAResidualThatBroadcasts) {
  const std::string conv = "input %x: f32[1,16,9,9]\ninput %w: f32[32,16,3,3]\n";
  for (const char* residual : {"[7]", "[32,1,1]", "[7,1]", "[1,1,1,1]", "[32,7,7]"}) {
    check(
        fmt::format("{}input %q: f32{}\n%r = neg(%q)\n%y, %m = conv_epilogue(%x, %w, %r) "
                    "{{residual=true, relu=true}}\noutput %y\noutput %m\n",
                    conv, residual));
  }
  check(
      "input %x: f32[4200,80]\ninput %w: f32[3,80]\ninput %r: f32[3]\n"
      "%y = linear_epilogue(%x, %w, %r) {residual=true}\noutput %y\n");
}

TEST(Epilogue, ReadsABiasThatItsResultLiesOn) {
  check(
      "input %x: f32[1,300]\ninput %w: f32[31,300]\ninput %c: f32[31]\n%b = neg(%c)\n"
      "%y = linear_epilogue(%x, %w, %b) {relu=true}\noutput %y\n");
  check(
      "input %x: f32[1,16,3,3]\ninput %w: f32[32,16,3,3]\ninput %c: f32[32]\ninput %q: f32[1,32,1,1]\n%b = neg(%c)\n"
      "%r = neg(%q)\n%y = conv_epilogue(%x, %w, %b, %r) {residual=true}\noutput %y\n");
}

TEST(Epilogue, WorksBetweenImagesInBlocks) {
  const std::string start =
      "input %x: f32[2,16,9,11]\ninput %w: f32[32,16,3,3]\ninput %v: f32[32,32,3,3]\n"
      "%a = conv_epilogue(%x, %w) {padding=[1], relu=true}\n";
  const std::string end = "%z = conv(%y, %v) {padding=[1]}\noutput %z\n";
  check(start + "%y = conv_epilogue(%a, %v, %a) {padding=[1], residual=true, relu=true}\n" + end);
  check(start + "%b = neg(%a)\n%y = conv_epilogue(%a, %v, %b) {padding=[1], residual=true, relu=true}\n" + end);
  check("input %q: f32[2,32,9,11]\n" + start +
        "%y = conv_epilogue(%a, %v, %q) {padding=[1], residual=true, relu=true}\n" + end);
  check(start + "%y = conv_epilogue(%a, %v, %a) {padding=[1], residual=true}\noutput %y\n");
  // In f32 alone: other roundings of %a turn bits.
  expect_agreement(parse_program(start + "%y, %m = conv_epilogue(%a, %v) {padding=[1], relu=true}\noutput %m\n" + end),
                   {.tolerance = 2e-4});
}

// As large as Winograd's algorithm wants them.
TEST(Epilogue, IsTheSameAsOpsOfTheirOwn) {
  const program::Program program = parse_program(
      "input %x: f32[4,64,32,32]\ninput %w: f32[64,64,3,3]\ninput %b: f32[64]\ninput %q: f32[4,64,32,32]\n"
      "%c = conv(%x, %w, %b) {padding=[1]}\n%s = add(%c, %q)\n%y = relu(%s)\n"
      "%r = neg(%q)\n%n = neg(%r)\n%z = conv_epilogue(%x, %w, %b, %n) {padding=[1], residual=true, relu=true}\n"
      "output %y\noutput %z\n");
  run::Session session(program, on_test_device(1), machine_budget());
  run::Executor& executor = session.executor();
  load(executor, random_values(program, {}));
  executor.step();
  const auto apart = executor.read<float>(program.outputs[0]);
  const auto together = executor.read<float>(program.outputs[1]);
  float largest = 1;
  for (const float x : apart) largest = std::max(largest, x);
  const double tolerance = sum_tolerance(64 * 9 + 2) * largest;
  for (size_t i = 0; i < apart.size(); ++i) ASSERT_NEAR(apart[i], together[i], tolerance) << i;
}

}  // namespace
}  // namespace plimsoll

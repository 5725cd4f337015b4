#include "plimsoll/program/text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/optimizer.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

constexpr const char* kStep = R"(input %x: f32[1,4]
input %rate: f32[]
parameter %w: f32[3,4]
state %seen: i64[] other
%matmul: f32[1,3] = matmul(%x, %w) {transpose_b=true}
%relu: f32[1,3], %relu.mask: u8[1] = relu(%matmul)
%flat: f32[3] = reshape(%relu) {shape=[3]}
%seed: f32[3] = fill() {value=0.1, shape=[3]} @backward
%grad.relu: f32[1,3] = reshape(%seed) {shape=[1,3]} @backward
%grad.matmul: f32[1,3] = mask_backward(%grad.relu, %relu.mask) @backward
%grad.w: f32[3,4] gradient = matmul(%grad.matmul, %x) {transpose_a=true} @backward
%w.new: f32[3,4] = sgd(%w, %grad.w, %rate) @update
output %flat
)";

std::string error_of(std::string_view text) {
  try {
    parse_program(text, "p.txt");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Text, ReadsWhatItWrites) {
  const Program program = parse_program(kStep);
  EXPECT_EQ(write_program(program), kStep);
  verify(program);
  EXPECT_EQ(program[program.find("w.new")].storage, program.find("w"));
  EXPECT_EQ(program[program.find("flat")].storage, program.find("relu"));
  EXPECT_EQ(program[program.find("grad.w")].category, Category::gradient);
  EXPECT_EQ(program[program.find("w.new")].category, Category::parameter);
}

TEST(Text, ExampleOfTheManualReadsAndWritesBackToItself) {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/docs/program.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const size_t begin = page.find("```\n") + 4;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  const Program program = parse_program(example, "docs/program.md");
  verify(program);
  EXPECT_EQ(write_program(program), example);
}

TEST(Text, WritesBuiltAndDifferentiatedPrograms) {
  Builder b;
  const Dim batch = Dim::symbol("batch");
  const Value x = b.input("x", {DType::f32, {batch, 4}});
  const Value w = b.parameter("w", {DType::f32, {2, 4}});
  const Value y = gelu(b, reshape(b, matmul(b, x, w, {.transpose_b = true}), {batch * 2}));
  const Root root{y};
  gradients(b, std::span(&root, 1), std::span(&w, 1));
  b.output(y);
  const std::string text = write_program(b.program());
  EXPECT_EQ(write_program(parse_program(text)), text);
  EXPECT_NE(text.find("%grad.gelu: f32[2*batch] = fill() {value=1, shape=[2*batch]} @backward"), std::string::npos)
      << text;
}

TEST(Text, TypesCommentsAndBlanksMayVary) {
  const Program program =
      parse_program("# a comment\n\n  input  %x : f32[ 2*batch , 3 ]  # here too\n%y=relu( %x )\r\n");
  EXPECT_EQ(write_program(program), "input %x: f32[2*batch,3]\n%y: f32[2*batch,3] = relu(%x)\n");
}

TEST(Text, ErrorsNameLineColumnAndWhatWasExpected) {
  EXPECT_EQ(error_of("inptu %x: f32[3]"),
            "p.txt:1:1: found 'inptu', expected input, parameter, state, output or the %name of a value");
  EXPECT_EQ(error_of("input %x: f32[3]\n%y = relu(%z)"), "p.txt:2:11: %z is not defined above");
  EXPECT_EQ(error_of("input %x: f32[3]\n%y = rleu(%x)"), "p.txt:2:6: there is no op 'rleu'");
  EXPECT_EQ(error_of("input %x: f32[3]\n%x = relu(%x)"), "p.txt:2:1: %x has two writers: it is defined above");
  EXPECT_EQ(error_of("input %x: f32[3]\n%y: f32[4] = relu(%x)"),
            "p.txt:2:1: %y is said to be f32[4], but the op gives f32[3]");
  EXPECT_EQ(error_of("input %x: i8[3]\n%y = relu(%x)"), "p.txt:2:6: relu %y: x is i8[3]; x must be floating");
  EXPECT_EQ(error_of("%y = fill() {value=a, shape=[3]}"), "p.txt:1:14: found 'a', expected a number like 0.5 or 1e-5");
  EXPECT_EQ(error_of("%y = fill() {valeu=1}"), "p.txt:1:14: op fill has no attribute 'valeu'");
  EXPECT_EQ(error_of("%y = fill() {value=1}"), "p.txt:1:6: fill: attribute shape is missing");
  EXPECT_EQ(error_of("input %x: f32[3"), "p.txt:1:11: found '[3', expected a list like [1,2]");
  EXPECT_EQ(error_of("input %x"), "p.txt:1:9: found the end of the line, expected ':' and a type");
  EXPECT_EQ(error_of("input %x: f32[3] good"), "p.txt:1:18: found 'good', expected a category");
  EXPECT_EQ(error_of("input %x: f32[3]\n%y = relu(%x) @sideways"),
            "p.txt:2:16: found 'sideways', expected forward, backward or update");
  EXPECT_EQ(error_of("input %x: f32[3]\n%y, %m, %n = relu(%x)"), "p.txt:2:14: 3 outputs, expected 2");
  EXPECT_EQ(error_of("input %x: f32[3]\n_ = relu(%x)"), "p.txt:2:5: output 1 of the op needs a name");
}

}  // namespace
}  // namespace plimsoll::program

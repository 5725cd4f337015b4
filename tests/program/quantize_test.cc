// Numbers as bytes, products of bytes, and the pass that puts them into a model.
#include "plimsoll/program/ops/quantize.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/passes/quantize.h"
#include "plimsoll/program/quantization.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"
#include "tests/program/pass_check.h"

namespace plimsoll::program {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Bytes {
  std::vector<int64_t> bytes;
  std::vector<float> scales;
};

Bytes bytes_of(const std::string& op, const Shape& shape, const std::vector<float>& x) {
  const Program program =
      parse_program(fmt::format("input %x: f32{}\n%q, %s = {}\noutput %q\noutput %s\n", Dims(shape).text(), op));
  Array<float> given({DType::f32, shape});
  given.reals = x;
  const auto outputs = evaluate<float>(program, {{"x", given}}).outputs;
  return {outputs.at("q").ints, outputs.at("s").reals};
}

TEST(Quantize, TheLargestNumberOfARowTakesTheLargestByte) {
  const Bytes rows = bytes_of("quantize_rows(%x)", {2, 1, 3}, {-2, 1, 0.5, 0.25, 127, 0});
  EXPECT_EQ(rows.bytes, (std::vector<int64_t>{-127, 64, 32, 0, 127, 0}));
  EXPECT_EQ(rows.scales, (std::vector<float>{2.0F / 127, 1}));
  const Bytes sample = bytes_of("quantize(%x) {dtype=u8}", {1, 2, 2}, {51, -3, 0, 20});
  EXPECT_EQ(sample.bytes, (std::vector<int64_t>{255, 0, 0, 100}));
  EXPECT_EQ(sample.scales, (std::vector<float>{51.0F / 255}));
}

TEST(Quantize, HalvesGoToTheEvenByte) {
  const Bytes rows = bytes_of("quantize(%x)", {1, 6}, {127, 0.5, 1.5, 2.5, -0.5, -1.5});
  EXPECT_EQ(rows.bytes, (std::vector<int64_t>{127, 0, 2, 2, 0, -2}));
}

TEST(Quantize, ARowOfZerosStaysZeroAndOneThatIsNotFiniteGivesNaN) {
  const Bytes zero = bytes_of("quantize(%x)", {1, 2}, {0, -0.0F});
  EXPECT_EQ(zero.bytes, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(zero.scales[0], 0);
  for (const float odd : {kNaN, kInfinity, -kInfinity}) {
    const Bytes row = bytes_of("quantize(%x)", {1, 3}, {1, odd, 2});
    EXPECT_EQ(row.bytes, (std::vector<int64_t>{0, 0, 0})) << odd;
    EXPECT_TRUE(std::isnan(0 * row.scales[0])) << odd;
  }
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(bytes_of("quantize(%x)", {1, 2}, {tiny, 0}).bytes, (std::vector<int64_t>{0, 0}));
}

TEST(Quantize, ProductsAreScaledByBothAndTakeTheBias) {
  const Program program = parse_program(R"(
input %x: i8[1,2]
input %w: i8[2,2]
input %xs: f32[1]
input %ws: f32[2]
input %b: f32[2]
input %i: i64[2]
%y = linear_i8(%x, %w, %xs, %ws, %b)
%row = embedding_i8(%w, %i, %ws)
output %y
output %row)");
  Arrays<double> given;
  for (const Value value : program.inputs) given[program[value].name] = Array<double>(program[value].type.spec());
  given["x"].ints = {3, -5};
  given["w"].ints = {127, 2, -127, 1};
  given["xs"].reals = {0.5};
  given["ws"].reals = {2, 4};
  given["b"].reals = {10, 20};
  given["i"].ints = {1, 0};
  const auto outputs = evaluate<double>(program, given).outputs;
  EXPECT_EQ(outputs.at("y").reals, (std::vector<double>{(3 * 127 - 10) + 10, (-3 * 127 - 5) * 2 + 20}));
  EXPECT_EQ(outputs.at("row").reals, (std::vector<double>{-508, 4, 254, 4}));
}

TEST(Quantize, RulesSayWhatMustHold) {
  const auto refusal = [](const std::string& inputs, const std::string& call) -> std::string {
    try {
      parse_program(inputs + "\n%y = " + call + "\noutput %y\n");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("input %x: f16[2,3]", "quantize(%x)").find("x must be f32"), std::string::npos);
  EXPECT_NE(refusal("input %x: f32[2,3]", "quantize(%x) {dtype=i16}").find("dtype must be i8 or u8"),
            std::string::npos);
  const std::string linear = "linear_i8(%x, %w, %xs, %ws)";
  const std::string weights = "\ninput %w: i8[4,3]\ninput %ws: f32[4]\ninput %xs: f32[";
  EXPECT_NE(refusal("input %x: f32[2,3]" + weights + "2]", linear).find("x must be i8 or u8"), std::string::npos);
  EXPECT_NE(refusal("input %x: i8[2,3]" + weights + "3]", linear).find("x_scale must be f32[2]"), std::string::npos);
  EXPECT_NE(refusal("input %x: i8[2,5]" + weights + "2]", linear).find("the last dimension of x"), std::string::npos);
  EXPECT_EQ(refusal("input %x: i8[2,3]" + weights + "2]", linear), "");
}

// ---- the pass ----

std::string quantized(const std::string& text) {
  const QuantizedProgram made = quantize_weights(parse_program(text), {.least_bytes = 0, .least_products = 0});
  verify(made.program);
  return write_program(made.program);
}

TEST(QuantizeWeights, TakesConvolutionsProductsAndTables) {
  EXPECT_EQ(quantized(R"(
input %x: f32[2,4,5,5]
input %i: i64[2]
parameter %k: f32[6,2,3,3]
parameter %b: f32[6]
parameter %w: f32[7,3]
%conv = conv(%x, %k, %b) {padding=[1], groups=2}
%row = embedding(%w, %i)
%y = matmul(%row, %w) {transpose_b=true}
output %conv
output %y)"),
            completed(R"(
input %x: f32[2,4,5,5]
input %i: i64[2]
parameter %k: i8[6,2,3,3]
parameter %b: f32[6]
parameter %w: i8[7,3]
state %k.scale: f32[6] parameter
state %w.scale: f32[7] parameter
%x.bytes, %x.scale = quantize(%x)
%conv = conv_i8(%x.bytes, %k, %x.scale, %k.scale, %b) {padding=[1], groups=2}
%row = embedding_i8(%w, %i, %w.scale)
%row.bytes, %row.scale = quantize_rows(%row)
%y = linear_i8(%row.bytes, %w, %row.scale, %w.scale)
output %conv
output %y)"));
}

TEST(QuantizeWeights, BringsToBytesOnceAndWithoutSignWhatIsNeverNegative) {
  const std::string text = quantized(R"(
input %x: f32[2,3,8,8]
parameter %k: f32[4,3,3,3]
parameter %l: f32[5,3,1,1]
%r = relu(%x)
%p = max_pool(%r) {kernel=[2]}
%a = conv(%p, %k)
%b = conv(%p, %l)
output %a
output %b)");
  EXPECT_NE(text.find("quantize(%p) {dtype=u8}"), std::string::npos) << text;
  EXPECT_EQ(text.find("quantize(", text.find("quantize(") + 1), std::string::npos) << text;
}

TEST(QuantizeWeights, LeavesWhatIsReadOtherwiseOrIsSmall) {
  const std::string text = R"(
input %x: f32[2,3]
parameter %read: f32[3,3]
parameter %viewed: f32[3,3]
parameter %shown: f32[3,3]
parameter %plain: f32[3,3]
%a = linear(%x, %read)
%sum = matmul(%a, %read)
%row = slice(%viewed) {starts=[0,0], sizes=[1,3], steps=[1,1]}
%b = linear(%x, %viewed)
%c = linear(%x, %shown)
%d = matmul(%x, %plain)
output %sum
output %row
output %b
output %c
output %d
output %shown)";
  const std::string two = R"(
input %x: f32[2,3]
parameter %w: f32[3,3]
%y = linear(%x, %w)
output %y)";
  EXPECT_EQ(quantized(text), completed(text));
  const auto of_two = [&](const QuantizeOptions& options) {
    return write_program(quantize_weights(parse_program(two), options).program);
  };
  EXPECT_NE(of_two({.least_bytes = 36, .least_products = 3}), completed(two));
  EXPECT_EQ(of_two({.least_bytes = 37, .least_products = 3}), completed(two));
  EXPECT_EQ(of_two({.least_bytes = 36, .least_products = 4}), completed(two));
}

TEST(QuantizeWeights, SaysWhichParametersHaveWhichScales) {
  const QuantizedProgram made =
      quantize_weights(parse_program("input %x: f32[2,40]\nparameter %small: f32[1,40]\nparameter %w: f32[2000,40]\n"
                                     "%a = linear(%x, %small)\n%b = linear(%x, %w)\noutput %a\noutput %b\n"));
  ASSERT_EQ(made.parameters.size(), 1U);
  EXPECT_EQ(made.program[made.parameters[0].weights].name, "w");
  EXPECT_EQ(made.program[made.parameters[0].scales].name, "w.scale");
  EXPECT_EQ(made.program.state, std::vector{made.parameters[0].scales});
}

}  // namespace
}  // namespace plimsoll::program

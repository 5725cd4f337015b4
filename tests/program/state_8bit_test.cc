#include "plimsoll/program/ops/state_8bit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/program/ops/state_code.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/train_step.h"
#include "plimsoll/program/verify.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

constexpr uint32_t kChances = 1U << kBitsBelowLevel;

TEST(StateCode, EveryCodeIsItsOwnShare) {
  for (int code = 0; code < 256; ++code) {
    for (const uint32_t chance : {0U, 77U, kChances - 1}) {
      const auto byte = static_cast<uint8_t>(code);
      EXPECT_EQ(unsigned_code(unsigned_share(byte), chance), byte);
      if (code == 0x80) continue;  // a second zero
      EXPECT_EQ(signed_code(signed_share(byte), chance), byte);
    }
  }
  EXPECT_EQ(signed_share(127), 1);
  EXPECT_EQ(signed_share(255), -1);
  EXPECT_EQ(unsigned_share(255), 1);
  EXPECT_EQ(unsigned_share(255 - 8), 0.5F);
}

TEST(StateCode, KeepsAnEighthOfASizeOverManyMagnitudesAndAllOfItOnAverage) {
  for (double x = 1; x > 1e-9; x *= 0.83) {
    const auto share = static_cast<float>(x);
    double mean = 0;
    double square = 0;
    constexpr int kDraws = 4096;
    for (uint32_t i = 0; i < kDraws; ++i) {
      const uint32_t chance = i * (kChances / kDraws);
      const float signed_back = signed_share(signed_code(-share, chance));
      const float unsigned_back = unsigned_share(unsigned_code(share, chance));
      ASSERT_NEAR(signed_back, -x, std::max(x / 8 * 1.0001, 0x1.4p-16)) << x;
      ASSERT_NEAR(unsigned_back, x, x / 8 * 1.0001) << x;
      mean -= signed_back / kDraws;
      square += unsigned_back / kDraws;
    }
    EXPECT_NEAR(mean, x, 1e-3 * x + 1e-8) << x;
    EXPECT_NEAR(square, x, 1e-3 * x) << x;
  }
}

TEST(StateCode, NothingThatIsDividedByBecomesZero) {
  for (const float share : {1e-12F, 1e-30F, 1e-44F}) EXPECT_EQ(unsigned_code(share, kChances - 1), 1);
  EXPECT_EQ(unsigned_code(0, kChances - 1), 0);
  EXPECT_EQ(signed_code(NAN, 0), 127);  // in range, whatever comes
}

Program step_of(const char* parameters, Optimizer optimizer) {
  Program model = parse_program(std::string("input %x: f32[batch,64]\ninput %t: f32[batch,64]\n") + parameters +
                                "%y = linear(%x, %w, %b)\n%l = mse_loss(%y, %t)\noutput %l\n");
  const Value loss = model.outputs[0];
  return training_step(std::move(model), loss, {.optimizer = optimizer, .eight_bit_state = true});
}

TEST(State8Bit, IsForParametersOfSomeSize) {
  const Program step = step_of("parameter %w: f32[64,64]\nparameter %b: f32[64]\n", Optimizer::adam);
  verify(step);
  EXPECT_EQ(write_program(parse_program(write_program(step))), write_program(step));
  const auto type = [&](const char* name) { return step[step.find(name)].type.text(); };
  EXPECT_EQ(type("optimizer.w.mean"), "u8[64,64]");
  EXPECT_EQ(type("optimizer.w.square_scales"), "f32[16]");
  EXPECT_EQ(type("optimizer.b.mean"), "f32[64]");
  const Program plain = step_of("parameter %w: f32[64,64]\nparameter %b: f32[64]\n", Optimizer::sgd);
  EXPECT_EQ(write_program(plain).find("8bit"), std::string::npos);
}

TEST(State8Bit, RejectsWhatDoesNotFit) {
  Builder b;
  const Value w = b.parameter("w", {DType::f32, {300}});
  const Value dw = b.input("dw", {DType::f32, {300}});
  const Value rate = b.input("rate", {DType::f32, {}});
  const Value step = b.state("step", {DType::i64, {}});
  const Value codes = b.state("codes", {DType::u8, {300}});
  const Value scales = b.state("scales", {DType::f32, {1}});
  const std::string given = "momentum_8bit %momentum_8bit: w is f32[300], dw is f32[300], velocity is ";
  EXPECT_EQ(error_of([&] {
              momentum_8bit(b, w, dw, {dw, scales}, step, rate);
            }),
            given +
                "f32[300], velocity_scales is f32[1], step is i64[], rate is f32[]; velocity must be u8 of the shape "
                "of w");
  EXPECT_EQ(error_of([&] {
              momentum_8bit(b, w, dw, {codes, scales}, step, rate);
            }),
            given + "u8[300], velocity_scales is f32[1], step is i64[], rate is f32[]; velocity_scales must be f32[2]");
}

}  // namespace
}  // namespace plimsoll::program

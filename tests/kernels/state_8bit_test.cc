// Updates with their state in codes of 8 bits against the reference evaluator, and how many threads do not matter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/program/ops/state_code.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "tests/kernels/against_reference.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

using program::Arrays;
using program::Program;

Program update_of(std::string_view op, std::string_view dtype, int64_t count) {
  const std::string state = fmt::format("u8[{}]\n", count);
  const std::string scales = fmt::format("f32[{}]\n", (count + 255) / 256);
  std::string text =
      fmt::format("input %g: {0}[{1}]\ninput %r: f32[]\ninput %c: f32[]\nparameter %w: {0}[{1}]\n", dtype, count);
  text += fmt::format("state %t: i64[]\nstate %m: {0}state %ms: {1}", state, scales);
  if (op == "momentum_8bit") {
    text += "%w2, %m2, %ms2 = momentum_8bit(%w, %g, %m, %ms, %t, %r, %c) {nesterov=true, weight_decay=0.1} @update\n";
  } else {
    text += fmt::format("state %s: {}state %ss: {}", state, scales);
    text += fmt::format(
        "%w2, %m2, %ms2, %s2, %ss2 = {}(%w, %g, %m, %ms, %s, %ss, %t, %r, %c) {{weight_decay=0.1}} @update\n", op);
  }
  return program::parse_program(text);
}

// Codes of all sizes, in the seventh step.
Arrays<double> values_of(const Program& program) {
  Arrays<double> values = random_values(program, {.low = 0.01, .high = 0.5});
  for (const char* codes : {"m", "s"}) {
    if (!values.contains(codes)) continue;
    std::vector<int64_t>& ints = values[codes].ints;
    for (size_t i = 0; i < ints.size(); ++i) ints[i] = static_cast<int64_t>(program::scrambled(i) % 256);
  }
  values["t"].ints = {7};
  return values;
}

// Everything that the update leaves behind, as numbers; codes as codes.
std::map<std::string, std::vector<float>> updated(const Program& program, const Arrays<double>& values, int threads) {
  run::Session session(program, {.device = compared_device(), .threads = threads}, compared_budget());
  run::Executor& executor = session.executor();
  load(executor, values);
  executor.step();
  std::map<std::string, std::vector<float>> after;
  for (const auto* kept : {&program.parameters, &program.state}) {
    for (const program::Value value : *kept) {
      const program::ValueInfo& info = program[value];
      if (info.type.dtype == DType::u8) {
        const auto codes = executor.read<uint8_t>(value);
        after[info.name] = {codes.begin(), codes.end()};
      } else if (is_floating(info.type.dtype)) {
        after[info.name] = run::read_floats(executor, value);
      }
    }
  }
  return after;
}

// A chance may fall the other way by a rounding, to the next level.
void expect_codes(const std::vector<float>& found, const std::vector<int64_t>& expected) {
  int64_t others = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto code = static_cast<int64_t>(found[i]);
    if (code == expected[i]) continue;
    ++others;
    ASSERT_LE(std::abs(code - expected[i]), 1) << "at " << i;
  }
  EXPECT_LE(others, static_cast<int64_t>(found.size()) / 1000 + 1);
}

TEST(State8Bit, UpdatesAsTheReferenceDoes) {
  if (compared_device().empty() || cuda::CompileOnly::architecture() != nullptr) GTEST_SKIP() << "nothing is computed";
  for (const char* op : {"momentum_8bit", "adam_8bit", "adamw_8bit"}) {
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      for (const int64_t count : {1, 255, 257, 40001}) {
        SCOPED_TRACE(fmt::format("{} {}[{}]", op, dtype, count));
        const Program program = update_of(op, dtype, count);
        const Arrays<double> values = values_of(program);
        const auto expected = program::evaluate<double>(program, values).after;
        const auto found = updated(program, values, 1);
        const double tolerance = std::string_view(dtype) == "f32" ? 1e-5 : 5e-3;
        for (const auto& [name, numbers] : found) {
          const program::Array<double>& wanted = expected.at(name);
          if (!is_floating(wanted.dtype)) {
            expect_codes(numbers, wanted.ints);
            continue;
          }
          for (size_t i = 0; i < numbers.size(); ++i) ASSERT_NEAR(numbers[i], wanted.reals[i], tolerance) << name;
        }
        EXPECT_EQ(updated(program, values, 2), found);
      }
    }
  }
}

TEST(State8Bit, StaysAsItIsWhenTheStepIsSkipped) {
  for (const char* op : {"momentum_8bit", "adam_8bit"}) {
    const Program program = update_of(op, "f32", 300);
    Arrays<double> values = values_of(program);
    values["c"].reals = {NAN};
    expect_agreement(program, values, 0);
    EXPECT_EQ(program::evaluate<double>(program, values).after.at("m").ints, values["m"].ints);
  }
}

}  // namespace
}  // namespace plimsoll

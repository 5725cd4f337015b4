#include "pass_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "plimsoll/plan/liveness.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

// Whole numbers are 0 or 1; what is kept from step to step, variances among it, is above zero.
Arrays<double> some_values(const Program& program) {
  std::mt19937_64 random(1);
  Arrays<double> given;
  const auto fill = [&](const std::vector<Value>& values, double low, double high) {
    std::uniform_real_distribution<double> draw(low, high);
    for (const Value value : values) {
      Array<double> array(program[value].type.spec());
      for (double& x : array.reals) x = draw(random);
      for (int64_t& x : array.ints) x = draw(random) > (low + high) / 2 ? 1 : 0;
      given[program[value].name] = std::move(array);
    }
  };
  fill(program.inputs, -1, 1);
  fill(program.parameters, -1, 1);
  fill(program.state, 0.5, 1.5);
  return given;
}

bool same(double a, double b, double tolerance) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(a));
}

void expect_same(const Arrays<double>& before, const Arrays<double>& after, double tolerance) {
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, array] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    const Array<double>& other = after.at(name);
    EXPECT_EQ(array.ints, other.ints) << name;
    ASSERT_EQ(array.reals.size(), other.reals.size()) << name;
    for (size_t i = 0; i < array.reals.size(); ++i) {
      ASSERT_TRUE(same(array.reals[i], other.reals[i], tolerance))
          << name << "[" << i << "]: " << array.reals[i] << " became " << other.reals[i];
    }
  }
}

}  // namespace

int64_t peak_bytes(const Program& program, bool in_place) {
  const std::vector<int64_t> live = plan::live_bytes(plan::find_liveness(program, {in_place}));
  return *std::max_element(live.begin(), live.end());
}

std::string completed(const std::string& text) { return write_program(parse_program(text)); }

Program check_pass(const Program& before, const Pass& pass, double tolerance) {
  const Program after = pass(before);
  const std::string text = write_program(after);
  EXPECT_EQ(find_problems(after), std::vector<std::string>()) << text;
  EXPECT_EQ(completed(text), text);
  for (const bool in_place : {true, false}) {
    EXPECT_LE(peak_bytes(after, in_place), peak_bytes(before, in_place)) << text;
  }
  const Arrays<double> given = some_values(before);
  const auto expected = evaluate<double>(before, given);
  const auto found = evaluate<double>(after, given);
  expect_same(expected.outputs, found.outputs, tolerance);
  expect_same(expected.after, found.after, tolerance);
  return after;
}

void check_pass(const std::string& before, const Pass& pass, const std::string& after, double tolerance) {
  EXPECT_EQ(write_program(check_pass(parse_program(before), pass, tolerance)), completed(after));
}

}  // namespace plimsoll::program

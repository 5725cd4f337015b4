// Lion and Adafactor against the reference in f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

using program::parse_program;

TEST(FactoredKernels, LionAgreesWithItsReference) {
  // Away from zero, where the sign turns.
  expect_agreement(parse_program("input %g: f32[20001]\ninput %r: f32[]\ninput %c: f32[]\nparameter %w: f32[20001]\n"
                                 "state %m: f32[20001]\n"
                                 "%n, %m2 = lion(%w, %g, %m, %r, %c) {weight_decay=0.1} @update\n"),
                   {.low = 0.1, .high = 1});
}

TEST(FactoredKernels, AdafactorAgreesWithItsReference) {
  for (const char* shape : {"7,300", "513,2", "4,3,5,5"}) {
    const std::string first = std::string(shape).substr(0, std::string(shape).find(','));
    const int64_t columns = std::string(shape) == "7,300" ? 300 : std::string(shape) == "513,2" ? 2 : 75;
    expect_agreement(parse_program(fmt::format(
                         "input %g: f32[{0}]\ninput %r: f32[]\ninput %c: f32[]\nparameter %w: f32[{0}]\n"
                         "state %a: f32[{1}]\nstate %b: f32[{2}]\nstate %t: i64[]\n%next = next_step(%t) @update\n"
                         "%n, %a2, %b2 = adafactor(%w, %g, %a, %b, %next, %r, %c) {{weight_decay=0.1}} @update\n",
                         shape, first, columns)),
                     {.low = 0.1, .high = 1, .tolerance = 1e-4});
  }
  expect_agreement(parse_program("input %g: f32[301]\ninput %r: f32[]\nparameter %w: f32[301]\nstate %q: f32[301]\n"
                                 "state %t: i64[]\n%next = next_step(%t) @update\n"
                                 "%n, %q2 = adafactor_vector(%w, %g, %q, %next, %r) @update\n"),
                   {.low = 0.1, .high = 1, .tolerance = 1e-4});
}

TEST(FactoredKernels, SkipUpdatesThatAreNoNumber) {
  const auto update = parse_program(
      "input %g: f32[3,4]\ninput %r: f32[]\ninput %c: f32[]\nparameter %w: f32[3,4]\nstate %a: f32[3]\n"
      "state %b: f32[4]\nstate %t: i64[]\n%n, %a2, %b2 = adafactor(%w, %g, %a, %b, %t, %r, %c) @update\n");
  auto values = random_values(update, {});
  values["c"].reals = {NAN};
  expect_agreement(update, values, 0);
}

}  // namespace
}  // namespace plimsoll

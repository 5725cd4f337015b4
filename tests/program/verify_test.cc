#include "plimsoll/program/verify.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/builder.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/text.h"

namespace plimsoll::program {
namespace {

Program chain() {
  return parse_program("input %x: f32[batch,3]\n%a = relu(%x)\n%b = neg(%a)\n%c = add(%a, %b)\noutput %c\n");
}

std::string problem_of(const Program& program) {
  const auto problems = find_problems(program);
  return problems.empty() ? "none" : problems[0];
}

TEST(Verify, AcceptsWhatTheBuilderMakes) { EXPECT_EQ(problem_of(chain()), "none"); }

TEST(Verify, UseBeforeDefinitionNamesTheValue) {
  Program program = chain();
  std::swap(program.ops[0], program.ops[1]);
  EXPECT_EQ(problem_of(program), "neg %b reads %a before it is made");
  EXPECT_EQ(find_problems(program).size(), 1u);
}

TEST(Verify, CycleNamesItsOps) {
  Program program = chain();
  program.ops[0].inputs[0] = program.find("b");
  const auto problems = find_problems(program);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[1], "a cycle: relu %a, neg %b wait for each other");
}

TEST(Verify, TwoWritersNameTheValue) {
  Program program = chain();
  program.ops.push_back(program.ops[1]);
  EXPECT_EQ(problem_of(program), "%b has 2 writers, expected one");
}

TEST(Verify, NamesMustBeUniqueAndWellFormed) {
  Program program = chain();
  program.values[1].name = "b";
  EXPECT_EQ(problem_of(program), "two values have the name %b");
  program.values[1].name = "a b";
  EXPECT_EQ(problem_of(program), "'a b' is not a value name");
}

TEST(Verify, PlacesMustExist) {
  Program program = chain();
  program.ops[1].inputs[0] = {99};
  EXPECT_EQ(problem_of(program), "an operand of op 1 (neg) is value 99, which does not exist: the program has 4");
  program = chain();
  program.outputs[0] = {};
  EXPECT_EQ(problem_of(program), "an output of the program is value -1, which does not exist: the program has 4");
}

TEST(Verify, TypesMustBeWhatTheOpInfers) {
  Program program = chain();
  program[program.find("b")].type.shape = {7};
  EXPECT_EQ(problem_of(program), "%b is f32[7], but neg gives f32[batch,3]");
}

TEST(Verify, AttributesMustFitTheSchema) {
  Program program = parse_program("%y = fill() {value=1, shape=[3]}");
  program.ops[0].attributes[0] = Attribute("one");
  EXPECT_EQ(problem_of(program), "fill %y has attributes against its schema");
}

TEST(Verify, ViewsMustLieWhereTheOpPutsThem) {
  Program program = parse_program("input %x: f32[6]\n%y = reshape(%x) {shape=[2,3]}");
  program[program.find("y")].storage = program.find("y");
  EXPECT_EQ(problem_of(program), "%y does not lie where reshape puts it: in the storage of %x");
}

TEST(Verify, OldContentMustNotBeReadAfterAnOverwrite) {
  constexpr const char* kUpdate = "parameter %w: f32[2]\ninput %g: f32[2]\ninput %r: f32[]\n%new = sgd(%w, %g, %r)\n";
  const std::string update = kUpdate;
  EXPECT_EQ(problem_of(parse_program(update + "%y = relu(%new)\noutput %y")), "none");
  EXPECT_EQ(problem_of(parse_program(update + "%y = relu(%w)")), "relu %y reads %w after %new has overwritten it");
  EXPECT_EQ(problem_of(parse_program(update + "output %w")), "the caller reads %w after %new has overwritten it");
  EXPECT_EQ(problem_of(parse_program(update + "%again = sgd(%w, %g, %r)")),
            "sgd %again reads %w after %new has overwritten it");
  EXPECT_EQ(problem_of(parse_program("parameter %w: f32[2]\ninput %r: f32[]\n%v = reshape(%w) {shape=[2]}\n"
                                     "%new = sgd(%w, %v, %r)")),
            "sgd %new overwrites %w and also reads it as %v");
}

TEST(Verify, UnboundDimensionsAreNamed) {
  try {
    verify_bound(chain());
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "%x is f32[batch,3]: bind batch to a size first");
  }
  EXPECT_NO_THROW(verify_bound(bind(chain(), {{"batch", 2}})));
}

}  // namespace
}  // namespace plimsoll::program

#include "plimsoll/plan/liveness.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/text.h"

namespace plimsoll::plan {
namespace {

using program::parse_program;
using program::Program;

const Storage& storage_of(const Program& program, const Liveness& liveness, std::string_view name) {
  const program::Value value = program.find(name);
  for (const Storage& storage : liveness.storages) {
    if (storage.owner == value) return storage;
  }
  throw ArgumentError(fmt::format("%{} owns no storage", name));
}

TEST(Liveness, CountsOperandsAndResultsAsAliveWhileTheOpRuns) {
  const Program program = parse_program(R"(
    input %x: f32[2,3]
    parameter %w: f32[3,5]
    parameter %v: f32[5,7]
    %a = matmul(%x, %w)
    %b = matmul(%a, %v)
    output %b
  )");
  const Liveness liveness = find_liveness(program);
  // x 24, w 60, v 140 come in; a is 40, b is 56.
  EXPECT_EQ(live_bytes(liveness), (std::vector<int64_t>{224 + 40, 224 + 40 + 56}));
}

TEST(Liveness, FreesWhatNoOpReadsAnyMore) {
  const Program program = parse_program(R"(
    parameter %w: f32[4,4]
    %a = matmul(%w, %w)
    %b = matmul(%a, %w)
    %c = matmul(%b, %w)
    output %c
  )");
  const Liveness liveness = find_liveness(program);
  EXPECT_EQ(storage_of(program, liveness, "a").first, 0);
  EXPECT_EQ(storage_of(program, liveness, "a").end, 2);
  EXPECT_EQ(storage_of(program, liveness, "c").end, 3);
  EXPECT_EQ(live_bytes(liveness), (std::vector<int64_t>{128, 192, 192}));
}

TEST(Liveness, MakesResultsInPlaceOfOperandsThatDie) {
  const Program program = parse_program(R"(
    input %x: f32[8]
    %a = exp(%x)
    %b = neg(%a)
    output %b
  )");
  const Liveness liveness = find_liveness(program);
  EXPECT_EQ(storage_of(program, liveness, "a").buffer, storage_of(program, liveness, "b").buffer);
  EXPECT_EQ(live_bytes(liveness), (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(live_bytes(find_liveness(program, {.in_place = false})), (std::vector<int64_t>{64, 96}));
}

TEST(Liveness, NeverOverwritesWhatComesInOrIsReadLater) {
  const Program program = parse_program(R"(
    input %x: f32[8]
    %a = exp(%x)
    %b = neg(%a)
    %c = add(%a, %b)
    output %c
  )");
  const Liveness liveness = find_liveness(program);
  EXPECT_NE(storage_of(program, liveness, "x").buffer, storage_of(program, liveness, "a").buffer);
  EXPECT_NE(storage_of(program, liveness, "a").buffer, storage_of(program, liveness, "b").buffer);
  EXPECT_EQ(live_bytes(liveness), (std::vector<int64_t>{64, 96, 96}));  // c in place of a
}

TEST(Liveness, KeepsAStorageWhileAViewOfItIsRead) {
  const Program program = parse_program(R"(
    input %x: f32[2,3]
    %a = exp(%x)
    %r = reshape(%a) {shape=[3,2]}
    %b = neg(%a)
    %c = neg(%r)
    output %b
    output %c
  )");
  const Liveness liveness = find_liveness(program);
  EXPECT_EQ(liveness.storages.size(), 4u);  // x, a, b, c: the view takes none
  EXPECT_EQ(storage_of(program, liveness, "a").end, 4);
  EXPECT_EQ(live_bytes(liveness), (std::vector<int64_t>{48, 48, 72, 72}));  // c in place of a, through the view
}

TEST(Liveness, DoesNotWriteOverAViewInAnotherOrder) {
  const Program program = parse_program(R"(
    input %x: f32[2,3]
    %a = exp(%x)
    %t = transpose(%a) {axes=[1,0]}
    %b = neg(%t)
    output %b
  )");
  const Liveness liveness = find_liveness(program);
  EXPECT_NE(storage_of(program, liveness, "a").buffer, storage_of(program, liveness, "b").buffer);
  EXPECT_EQ(live_bytes(liveness), (std::vector<int64_t>{48, 48, 72}));
}

TEST(Liveness, AnOverwriteTakesNoBytes) {
  const Program program = parse_program(R"(
    input %dw: f32[8]
    input %rate: f32[]
    parameter %w: f32[8]
    %new = sgd(%w, %dw, %rate) @update
  )");
  EXPECT_EQ(live_bytes(find_liveness(program)), (std::vector<int64_t>{68}));
}

TEST(Liveness, NamesTheResultWhereOneIsMadeInPlace) {
  const Program program = parse_program(R"(
    input %x: f32[8]
    %a = exp(%x)
    %b = neg(%a)
    output %b
  )");
  const std::vector<Storage> alive = alive_at(find_liveness(program), 1);
  ASSERT_EQ(alive.size(), 2u);
  EXPECT_EQ(program[alive[0].owner].name, "x");
  EXPECT_EQ(program[alive[1].owner].name, "b");
}

TEST(Liveness, AProgramWithoutOpsHoldsWhatComesIn) {
  EXPECT_EQ(live_bytes(find_liveness(parse_program("input %x: f32[3]\noutput %x"))), (std::vector<int64_t>{12}));
}

TEST(Liveness, NamesAValueThatIsNotBound) {
  const Program program = parse_program("input %x: f32[batch,3]");
  try {
    find_liveness(program);
    FAIL() << "accepted an unbound program";
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "%x is f32[batch,3]: bind its dimensions before asking for its bytes");
  }
}

}  // namespace
}  // namespace plimsoll::plan

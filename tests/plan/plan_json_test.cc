#include "plimsoll/plan/plan_json.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/text.h"

namespace plimsoll::plan {
namespace {

const kernels::Lowered& lowered() {
  static const auto made = kernels::prepare(
      program::parse_program("input %x: f32[64]\n%a = exp(%x)\n%b = neg(%a)\n%c = mul(%a, %b)\noutput %c\n"),
      {.threads = 1});
  return made;
}

const Setting kSetting = {"mlp", "train", "adam", "f32", {{"batch", 3}}};

std::string text_of_plan() {
  return write_plan(std::get<Plan>(make_plan(lowered(), {.budget_bytes = 1 << 20})), kSetting, lowered().program);
}

TEST(PlanJson, ReadsWhatItWrote) {
  const Plan plan = std::get<Plan>(make_plan(lowered(), {.budget_bytes = 1 << 20}));
  const std::string text = write_plan(plan, kSetting, lowered().program);
  EXPECT_EQ(read_plan(text, "test", lowered().program), plan);
  EXPECT_EQ(read_setting(text, "test"), kSetting);
}

struct Change {
  std::string_view from;
  std::string_view to;
  std::string_view message;
};

TEST(PlanJson, SaysWhatIsWrongAndWhere) {
  const Change changes[] = {
      {"\"plimsoll_plan\": 2", "\"plimsoll_plan\": 1", "plan.plimsoll_plan is '1', expected version 2"},
      {"\"steps\"", "\"stops\"", "plan has 'stops', which is no key of a plan"},
      {"\"run\": 1", "\"run\": -1", "plan.steps[1].run is '-1', expected a whole number, not negative"},
      {"\"run\": 1", "\"recompute\": \"a\"", "plan.steps[1].recompute is '\"a\"', expected a whole number"},
      {"\"run\": 2", "\"walk\": 2", "plan.steps[2] is an object, expected a step that says run, recompute, spill"},
      {"\"run\": 2", "\"run\": 2, \"walk\": 2", "plan.steps[2] has 'walk', which is no key of a plan"},
      {"\"run\": 2", "\"run\": 2, \"fetch\": \"a\"", "plan.steps[2] is an object, expected either run, recompute"},
      {"\"run\": 2", "\"spill\": \"z\"", "plan.steps[2] has 'scratch_at_bytes', which is no key"},
      {"\"b\": ", "\"z\": ", "expected the name of a value of this program"},
      {"\"micro_batches\": []", "\"micro_batches\": {}", "plan.micro_batches is an object, expected a list"},
      {"\"micro_batches\": [],", "", "plan has no \"micro_batches\""},
      {"{", "", "expected JSON"},
  };
  for (const Change& change : changes) {
    std::string text = text_of_plan();
    const size_t place = text.find(change.from);
    ASSERT_NE(place, std::string::npos) << change.from;
    text.replace(place, change.from.size(), change.to);
    try {
      read_plan(text, "plan.json", lowered().program);
      ADD_FAILURE() << "accepted " << change.to;
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("plan.json:")) << error.what();
      EXPECT_NE(std::string_view(error.what()).find(change.message), std::string_view::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace plimsoll::plan

// Steps in micro-batches as files, and the oracle that judges them.
#include "plimsoll/plan/step_plan_json.h"

#include <gtest/gtest.h>

#include <functional>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/step_oracle.h"

namespace plimsoll::plan {
namespace {

constexpr int64_t kBatch = 10;
const Setting kSetting = {"lenet", "train", "adam", "f32", {{"batch", kBatch}}, {}};

const models::MicroBatchStep& cut() {
  static const models::MicroBatchStep made = models::build_micro_batch_step(
      models::find_model("lenet"), {.sizes = {{"batch", kBatch}}, .size = models::Size::small});
  return made;
}

StepForms forms() {
  const kernels::DeviceOptions device{.threads = 1};
  return {kBatch,
          [device] {
            const models::StepOptions options{.sizes = {{"batch", kBatch}}, .size = models::Size::small};
            return kernels::prepare(models::build_step(models::find_model("lenet"), options), device);
          },
          [device](int64_t size) {
            return kernels::prepare(program::bind(cut().split.micro_batch, {{"batch", size}}), device);
          },
          [device] { return kernels::prepare(cut().split.update, device); },
          [device](const program::StepForm& form) {
            const models::StepOptions options{.sizes = {{"batch", kBatch}}, .size = models::Size::small, .form = form};
            return kernels::prepare(models::build_step(models::find_model("lenet"), options), device);
          },
          models::find_chunk_places(models::find_model("lenet"), {.size = models::Size::small})};
}

// The first ops in two chunks.
StepPlan step_in_chunks() {
  const program::StepForm form{2, forms().places.first.front(), 0, true};
  kernels::Lowered lowered = forms().formed(form);
  auto plan = std::get<Plan>(make_plan(lowered, {.budget_bytes = INT64_MAX}));
  StepPlan step{.sizes = {kBatch}, .form = form, .budget_bytes = INT64_MAX, .arena_bytes = plan.arena_bytes};
  step.unplanned_bytes = 2 * plan.arena_bytes;
  step.predicted_s = plan.predicted_s;
  step.programs.push_back({std::move(lowered), std::move(plan)});
  return step;
}

// In micro-batches of four, the last of two.
StepPlan step_in_micro_batches() {
  static const StepPlan made = [] {
    const int64_t four = plan_memory(forms().micro_batch(4)).placement.arena_bytes;
    return std::get<StepPlan>(plan_step(forms(), {.budget_bytes = four, .recompute = false}));
  }();
  return made;
}

TEST(StepPlanJson, ReadsWhatItWrote) {
  const StepPlan step = step_in_micro_batches();
  ASSERT_EQ(step.sizes, (std::vector<int64_t>{4, 4, 2}));
  EXPECT_EQ(find_fault(step, kBatch), std::nullopt);
  const std::string text = write_step_plan(step, kSetting);
  EXPECT_EQ(read_setting(text, "test"), kSetting);
  const StepPlan read = read_step_plan(text, "test", forms());
  EXPECT_EQ(find_fault(read, kBatch), std::nullopt);
  EXPECT_EQ(write_step_plan(read, kSetting), text);
}

TEST(StepPlanJson, ReadsTheFormOfAStep) {
  const StepPlan step = step_in_chunks();
  EXPECT_EQ(find_fault(step, kBatch), std::nullopt);
  EXPECT_EQ(step.measures().at(0).kind, "batch-chunks");
  const std::string text = write_step_plan(step, kSetting);
  const StepPlan read = read_step_plan(text, "test", forms());
  EXPECT_EQ(read.form, step.form);
  EXPECT_EQ(find_fault(read, kBatch), std::nullopt);
  EXPECT_EQ(write_step_plan(read, kSetting), text);
}

TEST(StepPlanJson, TellsTheCutAsAMeasure) {
  const StepPlan step = step_in_micro_batches();
  const Measure cut = step.measures().at(0);
  EXPECT_EQ(cut.kind + " " + cut.what, "micro-batches 3 micro-batches of 4");
  EXPECT_EQ(cut.saved_bytes, step.unplanned_bytes - step.arena_bytes);
  EXPECT_NEAR(cut.cost_s, step.predicted_s - step.unplanned_s, 1e-12);
}

// The whole batch, whose state may be in 8 bits.
StepForms forms_with_leave() {
  const auto whole_with = [](bool coded) {
    return [coded] {
      const models::StepOptions options{.train = {.eight_bit_state = coded}, .sizes = {{"batch", kBatch}}};
      return kernels::prepare(models::build_step(models::find_model("lenet"), options), {.threads = 1});
    };
  };
  StepForms whole{kBatch, whole_with(false)};
  const ChangedForms changed{{kBatch, whole_with(true)}, "8-bit-state", "optimizer state"};
  whole.otherwise = std::make_shared<const ChangedForms>(changed);
  return whole;
}

TEST(StepPlan, ChangesTheNumbersOnlyWhereNothingElseFits) {
  const StepForms whole = forms_with_leave();
  const int64_t wide = plan_memory(whole.whole()).placement.arena_bytes;
  const int64_t coded = plan_memory(whole.otherwise->forms.whole()).placement.arena_bytes;
  ASSERT_LT(coded, wide);
  const auto plan_in = [&](int64_t budget) { return plan_step(whole, {.budget_bytes = budget, .recompute = false}); };
  EXPECT_EQ(std::get<StepPlan>(plan_in(wide)).changes, std::vector<Measure>{});
  const StepPlan step = std::get<StepPlan>(plan_in(wide - 1));
  ASSERT_EQ(step.changes.size(), 1u);
  EXPECT_EQ(step.measures()[0], step.changes[0]);
  EXPECT_EQ(step.changes[0].saved_bytes, wide - coded);
  EXPECT_EQ(step.unplanned_bytes, wide);
  EXPECT_EQ(step.arena_bytes, coded);
  EXPECT_EQ(find_fault(step, kBatch), std::nullopt);
  const Refusal refusal = std::get<Refusal>(plan_in(coded - 1));
  EXPECT_EQ(refusal.smallest_bytes, align_up(coded, 4096));
  EXPECT_EQ(refusal.unplanned_bytes, wide);
}

TEST(StepPlanJson, KeepsWhatChangesTheNumbers) {
  StepForms whole = forms_with_leave();
  const int64_t coded = plan_memory(whole.otherwise->forms.whole()).placement.arena_bytes;
  const auto step = std::get<StepPlan>(plan_step(whole, {.budget_bytes = coded, .recompute = false}));
  Setting setting = kSetting;
  setting.allow = {"8-bit-state"};
  const std::string text = write_step_plan(step, setting);
  EXPECT_EQ(read_setting(text, "test"), setting);
  const StepPlan read = read_step_plan(text, "test", whole);
  EXPECT_EQ(find_fault(read, kBatch), std::nullopt);
  EXPECT_EQ(read.changes, step.changes);
  EXPECT_EQ(write_step_plan(read, setting), text);
  whole.otherwise.reset();
  EXPECT_THROW(read_step_plan(text, "test", whole), InputError);
}

TEST(StepPlanJson, SaysWhatIsWrongAndWhere) {
  struct Change {
    std::string_view from;
    std::string_view to;
    std::string_view message;
  };
  const Change changes[] = {
      {"\"plimsoll_step_plan\": 3", "\"plimsoll_step_plan\": 2", "plan.plimsoll_step_plan is '2', expected version 3"},
      {"\"sizes\": [\n  4,", "\"sizes\": [\n  0,", "plan.sizes[0] is '0', expected 1 to 10: the batch is 10"},
      {"\"sizes\": [\n  4,", "\"sizes\": [\n  7,", "plan.sizes[1] is '4', expected 1 to 3"},
      {"\"sizes\": [\n  4,", "\"sizes\": [\n  3,", "expected micro-batches of a batch of 10, 1 samples more"},
      {"\"batch_chunks\": 1", "\"batch_chunks\": 3",
       "plan.form.batch_chunks is '3', expected a divisor of the batch, 10"},
      {"\"first\": 0", "\"first\": 99", "plan.form.first is '99', expected 0, or a number of ops"},
      {"\"sink_ops\": false", "\"sink_ops\": true",
       "plan.form is an object, expected none: the batch is in micro-batches"},
      {"\"programs\"", "\"pictures\"", "plan has 'pictures', which is no key of a plan"},
      {"\"run\": 1,", "\"walk\": 1,",
       "plan.programs[0].steps[1] is an object, expected a step that says run, recompute"},
  };
  for (const Change& change : changes) {
    std::string text = write_step_plan(step_in_micro_batches(), kSetting);
    const size_t place = text.find(change.from);
    ASSERT_NE(place, std::string::npos) << change.from;
    text.replace(place, change.from.size(), change.to);
    try {
      read_step_plan(text, "plan.json", forms());
      ADD_FAILURE() << "accepted " << change.to;
    } catch (const InputError& error) {
      EXPECT_NE(std::string_view(error.what()).find(change.message), std::string_view::npos) << error.what();
    }
  }
}

TEST(StepOracle, FindsWhatOnlyTheStepAsAWholeShows) {
  struct Fault {
    std::function<void(StepPlan&)> make;
    std::string_view says;
  };
  const auto swap_parameters = [](StepPlan& step) {
    std::vector<Placed>& resident = step.programs.back().plan.resident;
    resident[resident.size() - 1].offset += 1 << 16;
  };
  const Fault faults[] = {
      {[](StepPlan& step) {
         step.sizes = {4, 4, 1};
       },
       "the micro-batches have 9 samples, the batch 10"},
      {[](StepPlan& step) {
         step.sizes = {2, 4, 4};
       },
       "a micro-batch has 4 samples, expected 2, and the last not more"},
      {[](StepPlan& step) {
         step.sizes = {5, 5};
       },
       "there are 3 programs, expected 2"},
      {[](StepPlan& step) { step.arena_bytes += 64; }, "bytes, stated are"},
      {[](StepPlan& step) { step.budget_bytes = 64; }, "bytes of 64"},
      {[](StepPlan& step) { step.predicted_s *= 2; }, "s, stated are"},
      {[](StepPlan& step) {
         step.programs[1].plan.micro_batches = {5, 5};
       },
       "program 1 is for other micro-batches than the step"},
      {[](StepPlan& step) { step.programs[2].plan.steps.pop_back(); }, "program 2: "},
      {swap_parameters, "program 2"},
  };
  for (const Fault& fault : faults) {
    StepPlan step = step_in_micro_batches();
    fault.make(step);
    const auto found = find_fault(step, kBatch);
    ASSERT_TRUE(found.has_value()) << fault.says;
    EXPECT_NE(found->find(fault.says), std::string::npos) << *found;
  }
}

}  // namespace
}  // namespace plimsoll::plan

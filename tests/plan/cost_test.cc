#include "plimsoll/plan/cost.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/plan/largest_batch.h"
#include "plimsoll/plan/manifest.h"
#include "plimsoll/plan/measure.h"
#include "plimsoll/program/text.h"
#include "tests/plan/small_steps.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

Lowered lenet() { return kernels::prepare(small_step("lenet", program::Optimizer::sgd).program, {.threads = 1}); }

TEST(Costs, TellMeasuredFromEstimated) {
  const Lowered lowered = lenet();
  CostTable table;
  const Costs by_roofline = costs_of(lowered, table);
  EXPECT_EQ(by_roofline.seconds, roofline_seconds(lowered));
  EXPECT_EQ(by_roofline.measured_s, 0);
  measure_costs(lowered, {.budget = machine_budget(), .time_limit_s = 1e9}, table);
  const Costs measured = costs_of(lowered, table);
  EXPECT_EQ(measured.estimated_s + measured.scaled_s, 0);
  EXPECT_GT(measured.measured_s, 0);
}

TEST(Costs, ScaleWhatWasMeasuredInAnotherSize) {
  const auto exp_of = [](int elements) {
    return kernels::prepare(
        program::parse_program(fmt::format("input %x: f32[{}]\n%y = exp(%x)\noutput %y\n", elements)), {.threads = 1});
  };
  const Lowered small = exp_of(1 << 20);
  const Lowered large = exp_of(1 << 22);
  const double twice = 2 * roofline_seconds(small)[0];
  const CostTable table = {{cost_key(small, 0), {twice, small.ops[0].flops, small.ops[0].bytes}}};
  const Costs costs = costs_of(large, table);
  EXPECT_NEAR(costs.scaled_s, 2 * roofline_seconds(large)[0], 1e-12);
  EXPECT_EQ(costs.seconds[0], costs.scaled_s);
  EXPECT_EQ(costs.measured_s + costs.estimated_s, 0);
}

TEST(Costs, AreMeasuredLongestFirstAndWithinTheirTime) {
  const Lowered lowered = lenet();
  CostTable table;
  EXPECT_FALSE(measure_costs(lowered, {.budget = machine_budget(), .time_limit_s = 1e-9}, table));
  EXPECT_TRUE(table.empty());
  EXPECT_FALSE(measure_costs(lowered, {.budget = {0, "test"}}, table));
  EXPECT_TRUE(table.empty());
  calibrate("cpu", 1, {.budget = machine_budget()}, table);
  const std::vector<double> seconds = costs_of(lowered, table).seconds;
  const auto longest = std::max_element(seconds.begin(), seconds.end()) - seconds.begin();
  int on_progress = 0;
  measure_costs(
      lowered,
      {.budget = machine_budget(),
       .on_progress = [&](size_t,
                          size_t) { EXPECT_TRUE(on_progress++ > 0 || table.contains(cost_key(lowered, longest))); }},
      table);
  EXPECT_GT(on_progress, 1);
}

TEST(Manifest, NamesAPeakThatHasGrown) {
  const Manifest manifest = {{"mlp", {.unplanned_bytes = 1024, .budget_bytes = 512, .planned_bytes = 500}}};
  EXPECT_EQ(read_manifest(write_manifest(manifest), "manifest"), manifest);
  EXPECT_EQ(find_growth(manifest, "mlp", {1024, 512, 500}), "");
  EXPECT_EQ(find_growth(manifest, "mlp", {1000, 0, 0}), "");
  EXPECT_EQ(find_growth(manifest, "mlp", {2048, 512, 500}),
            "the peak of mlp was 1.00 KiB (1,024 bytes) and is 2.00 KiB (2,048 bytes): 1.00 KiB more");
  EXPECT_EQ(find_growth(manifest, "mlp", {1024, 512, 510}),
            "the planned peak of mlp was 500 B (500 bytes) and is 510 B (510 bytes): 10 B more");
  EXPECT_EQ(find_growth(manifest, "vgg", {1, 0, 0}), "vgg is not in the manifest; write it with --manifest");
  EXPECT_THROW(read_manifest("{\"plimsoll_manifest\": 1}", "manifest"), InputError);
}

TEST(LargestBatch, FitsAndOneMoreDoesNot) {
  const auto step_of = [](int64_t batch) {
    models::StepOptions options = {.sizes = {{"batch", batch}}, .size = models::Size::small};
    return kernels::prepare(models::build_step(models::find_model("lenet"), options), {.threads = 1});
  };
  const auto costs = [](const Lowered& lowered) { return roofline_seconds(lowered); };
  const int64_t budget = std::get<Plan>(make_plan(step_of(37))).arena_bytes;
  const PlanOptions options = {.budget_bytes = budget, .work_limit = 20'000};
  const auto found = find_largest_batch(step_of, costs, options, 1000);
  ASSERT_TRUE(found.has_value());
  EXPECT_GE(found->largest.batch, 37);
  EXPECT_LE(found->largest.arena_bytes, budget);
  EXPECT_TRUE(std::holds_alternative<Refusal>(make_plan(step_of(found->largest.batch + 1), options)));
  EXPECT_LE(found->fastest.seconds_per_sample(), found->largest.seconds_per_sample());
}

}  // namespace
}  // namespace plimsoll::plan

// Histories of steps: pages and Chrome traces of estimate, plan and train hold what the planner says.
#include "plimsoll/report/step_page.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/report/chrome_trace.h"

namespace plimsoll::report {
namespace {

train::StepRequest small_request() {
  train::StepRequest request{.model = models::find_model("resnet18")};
  request.step.size = models::Size::small;
  request.step.sizes["batch"] = 4;
  request.threads = 1;
  return request;
}

kernels::Lowered small_step() {
  const train::StepRequest request = small_request();
  return kernels::prepare(models::build_step(request.model, request.step), {.threads = 1});
}

int64_t live_at(const PageTimeline& timeline, int32_t at) {
  int64_t bytes = 0;
  for (const PageBlock& block : timeline.blocks) bytes += block.begin <= at && at < block.end ? block.bytes : 0;
  return bytes;
}

TEST(StepPage, TimelineHasTheLiveBytesOfTheEstimate) {
  const kernels::Lowered lowered = small_step();
  const plan::Estimate estimate = plan::estimate(lowered);
  const StepHistory history = history_of(lowered, std::vector<double>(lowered.ops.size(), 1e-3));
  Page page;
  PageLabels labels(page);
  add_timeline(page, labels, history, "step");
  ASSERT_EQ(page.timelines[0].positions, static_cast<int32_t>(estimate.live_bytes.size()));
  for (int32_t op = 0; op < page.timelines[0].positions; ++op) {
    ASSERT_EQ(live_at(page.timelines[0], op), estimate.live_bytes[static_cast<size_t>(op)]) << op;
  }
  EXPECT_EQ(page.timelines[0].ranges[0].bytes, estimate.peak_bytes);
}

// Each op reads what an earlier one made, or what comes in.
TEST(StepPage, EdgesHaveTheBytesOfWhatOpsRead) {
  const kernels::Lowered lowered = small_step();
  Page page;
  PageLabels labels(page);
  add_timeline(page, labels, history_of(lowered, {}), "step");
  const std::vector<program::Op>& ops = lowered.program.ops;
  std::vector<int64_t> found(ops.size());
  for (const PageEdge& edge : page.timelines[0].edges) {
    EXPECT_LT(edge.from, edge.to);
    found[static_cast<size_t>(edge.to)] += edge.bytes;
  }
  for (size_t op = 0; op < ops.size(); ++op) {
    std::map<int32_t, int64_t> reads;
    for (const program::Value input : ops[op].inputs) {
      if (input) reads[input.index] = lowered.program[input].type.spec().bytes();
    }
    int64_t bytes = 0;
    for (const auto& [value, size] : reads) bytes += size;
    EXPECT_EQ(found[op], bytes) << op_text(lowered.program, op);
  }
}

// Nothing that is alive together overlaps in the arena that the page draws.
TEST(StepPage, BlocksAliveTogetherShareNoByte) {
  const kernels::Lowered lowered = small_step();
  Page page;
  PageLabels labels(page);
  add_timeline(page, labels, history_of(lowered, {}), "step");
  const std::vector<PageBlock>& blocks = page.timelines[0].blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t k = i + 1; k < blocks.size(); ++k) {
      const bool together = blocks[i].begin < blocks[k].end && blocks[k].begin < blocks[i].end;
      const bool apart = blocks[i].address + blocks[i].bytes <= blocks[k].address ||
                         blocks[k].address + blocks[k].bytes <= blocks[i].address;
      ASSERT_TRUE(!together || apart) << i << " and " << k;
    }
  }
}

TEST(StepPage, LabelsAreModules) {
  Page page;
  PageLabels labels(page);
  add_timeline(page, labels, history_of(small_step(), {}), "step");
  std::vector<std::string> frames;
  for (const PageFrame& frame : page.frames) frames.push_back(frame.text);
  EXPECT_NE(std::find(frames.begin(), frames.end(), "layer1.0.conv1"), frames.end());
  EXPECT_EQ(std::find(frames.begin(), frames.end(), "optimizer"), frames.end()) << "state belongs to its parameter";
}

TEST(StepPage, SwitchesOfAnEstimateAreEstimates) {
  const kernels::Lowered lowered = small_step();
  const Page page = estimate_page({.title = "tiny", .request = small_request()}, history_of(lowered, {}));
  ASSERT_EQ(page.switches.at(0).id, "half_batch");
  train::StepRequest half = small_request();
  half.step.sizes["batch"] = 2;
  const auto expected = plan::estimate(kernels::prepare(models::build_step(half.model, half.step), {.threads = 1}));
  EXPECT_EQ(page.views.at(1).switches, 1u);
  EXPECT_EQ(page.views[1].peak_bytes, expected.live_peak_bytes);
  EXPECT_EQ(page.views[1].reserved[0].peak_bytes, expected.peak_bytes);
}

TEST(StepPage, APlanFitsAndTheStepWithoutItDoesNot) {
  const train::ModelForms model(small_request());
  const int64_t whole = plan::plan_memory(model.forms().whole()).placement.arena_bytes;
  plan::PlanOptions options;
  options.budget_bytes = 1;
  const auto refused = plan::plan_step(model.forms(), options);
  options.budget_bytes = (std::get<plan::Refusal>(refused).smallest_bytes + whole) / 2;
  const auto made = plan::plan_step(model.forms(), options);
  const auto* step = std::get_if<plan::StepPlan>(&made);
  ASSERT_NE(step, nullptr);
  const Page page = plan_page(
      {.title = "tiny", .request = small_request(), .limit = PageFigure{"the budget", options.budget_bytes}}, *step);
  EXPECT_EQ(page.views[0].reserved[0].peak_bytes, step->arena_bytes);
  ASSERT_EQ(page.switches.at(0).id, "no_plan");
  EXPECT_EQ(page.views.at(1).reserved[0].peak_bytes, whole);
  EXPECT_GT(whole, options.budget_bytes);
}

TEST(StepHistory, HasTheTimesThatOpsTook) {
  const train::StepRequest request = small_request();
  run::Session session(models::build_step(request.model, request.step), {.threads = 1}, machine_budget());
  run::Executor& executor = session.executor();
  executor.step();
  EXPECT_TRUE(executor.op_seconds().empty()) << "nobody asked";
  executor.time_ops();
  const auto start = std::chrono::steady_clock::now();
  executor.step();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  plan::StepPlan whole;
  whole.programs.resize(1);
  whole.sizes = {4};
  const StepHistory history = history_of(whole, session);
  ASSERT_EQ(history.size(), 1u);
  ASSERT_EQ(history[0].seconds.size(), history[0].program.ops.size());
  EXPECT_GT(history[0].all_seconds(), 0);
  EXPECT_LE(history[0].all_seconds(), took.count());
}

TEST(ChromeTrace, OfAStepHasOpsOnTracksAndCountersByCategory) {
  const kernels::Lowered lowered = small_step();
  const plan::Estimate estimate = plan::estimate(lowered);
  const StepHistory history = history_of(lowered, std::vector<double>(lowered.ops.size(), 2e-6));
  const auto json = nlohmann::json::parse(chrome_trace(history, "a \"step\"", {.seconds = {0.5, 0.25}}));
  size_t ops = 0;
  size_t steps = 0;
  int64_t peak = 0;
  double end = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "C") {
      int64_t live = 0;
      for (const auto& [category, bytes] : event["args"].items()) live += bytes.get<int64_t>();
      peak = std::max(peak, live);
    }
    if (event["ph"] != "X") continue;
    if (event["tid"] == 5) {
      ++steps;
      continue;
    }
    ++ops;
    EXPECT_NEAR(event["ts"].get<double>(), end, 1e-6) << "one after the other";
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(ops, lowered.ops.size());
  EXPECT_EQ(steps, 2u);
  EXPECT_EQ(peak, estimate.live_peak_bytes);
  EXPECT_EQ(json["traceEvents"][0]["args"]["name"], "a \"step\"");
}

TEST(ChromeTrace, RepeatsAMicroBatchAsOftenAsItRuns) {
  StepHistory history = history_of(small_step(), {});
  history[0].times = 3;
  const auto json = nlohmann::json::parse(chrome_trace(history, "step"));
  size_t first_ops = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X" && event["args"]["op"] == 0) ++first_ops;
  }
  EXPECT_EQ(first_ops, 3u);
}

}  // namespace
}  // namespace plimsoll::report

// What ranks wait for each other, on paper, and the sharding that is chosen by it.
#include "plimsoll/train/link.h"

#include <gtest/gtest.h>

#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/device/thread_ranks.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/train/choose_sharding.h"
#include "tests/train/outcome.h"

namespace plimsoll {
namespace {

using program::Sharding;

// A second a message, and a second for 1000 bytes.
train::Link slow_link() { return {"slow", 1, 1000}; }

program::Program sum_beside(bool waits_at_once) {
  program::Builder b;
  const program::Value x = b.parameter("x", {DType::f32, {250}});
  const program::Value y = b.parameter("y", {DType::f32, {250}});
  if (waits_at_once) {
    all_reduce(b, x, 2);
    b.output(relu(b, y));
  } else {
    const program::Value going = all_reduce_start(b, x, 2);
    b.output(relu(b, y));
    collective_finish(b, {going}, 2);
  }
  return std::move(b).finish();
}

// Two messages and 1000 bytes: 3 s.
TEST(Link, WhatGoesOnBesideOpsIsWaitedForAsFarAsItIsNotDone) {
  EXPECT_EQ(train::communication_s(sum_beside(true), slow_link()), 3);
  EXPECT_EQ(train::waits_of(sum_beside(true), {0, 2}, slow_link()), (std::vector<double>{3, 0}));
  EXPECT_EQ(train::waits_of(sum_beside(false), {0, 2, 0}, slow_link()), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(train::waits_of(sum_beside(false), {0, 5, 0}, slow_link()), (std::vector<double>{0, 0, 0}));
}

// The second is under way when the first is done.
TEST(Link, TakesOneCollectiveAfterTheOther) {
  program::Builder b;
  std::vector<program::Value> going;
  for (const char* name : {"x", "y"}) {
    going.push_back(all_reduce_start(b, b.parameter(name, {DType::f32, {250}}), 2));
  }
  for (const program::Value one : going) collective_finish(b, {one}, 2);
  EXPECT_EQ(train::waits_of(b.program(), {0, 0, 0, 0}, slow_link()), (std::vector<double>{0, 0, 3, 3}));
}

TEST(Link, IsMeasuredOnAllRanks) {
  device::ThreadRanks(3).run([](const std::shared_ptr<device::Communicator>& ranks) {
    const train::Link link = train::measure_link(*ranks);
    EXPECT_GT(link.latency_s, 0);
    EXPECT_GT(link.bytes_per_s, 0);
  });
}

train::StepRequest request_of_two(Sharding sharding, program::Optimizer optimizer = program::Optimizer::adam) {
  train::StepRequest request{.model = models::find_model("mlp"), .threads = 1};  // of its full size
  request.step.sizes = {{"batch", 4}};
  request.step.train.optimizer = optimizer;
  request.step.train.bucket_bytes = 512;
  request.link = train::parse_link("IB");
  return train::request_of_ranks(std::move(request), 2, sharding);
}

int64_t smallest_of(Sharding sharding) {
  const train::ModelForms model(request_of_two(sharding));
  return std::get<plan::Refusal>(plan::plan_step(model.forms(), {.budget_bytes = 64})).smallest_bytes;
}

Sharding chosen_for(int64_t budget_bytes, program::Optimizer optimizer = program::Optimizer::adam) {
  return train::choose_sharding(request_of_two(Sharding::none, optimizer), {.budget_bytes = budget_bytes},
                                train::possible_shardings(false));
}

TEST(ChooseSharding, TakesNoMoreThanItMust) {
  const int64_t without = smallest_of(Sharding::none);
  const int64_t of_state = smallest_of(Sharding::optimizer);
  const int64_t of_parameters = smallest_of(Sharding::parameters);
  ASSERT_LT(of_state, without);
  ASSERT_LT(of_parameters, of_state);
  EXPECT_LE(chosen_for(int64_t{1} << 30), Sharding::optimizer);
  EXPECT_GE(chosen_for(without - 4096), Sharding::optimizer);
  EXPECT_EQ(chosen_for(of_parameters), Sharding::parameters);
  EXPECT_EQ(chosen_for(64), Sharding::parameters);  // nothing fits: what comes closest
}

TEST(ChooseSharding, PassesOverWhatTheOptimizerCannotHave) {
  EXPECT_EQ(chosen_for(64, program::Optimizer::adafactor), Sharding::none);
}

TEST(ChooseSharding, OnPaperByEstimates) {
  train::StepRequest whole{.model = models::find_model("gpt2-nano"), .threads = 1};
  whole.step = options_of({.model = "gpt2-nano", .batch = 8});
  whole.step.train.bucket_bytes = 512;
  const train::Link link = train::parse_link("10GbE");
  EXPECT_LE(train::estimate_sharding(whole, 4, link, INT64_MAX), Sharding::optimizer);
  const int64_t least = train::estimate_ranks(whole, 4, Sharding::parameters, link).arena_bytes;
  EXPECT_LT(least, train::estimate_ranks(whole, 4, Sharding::gradients, link).arena_bytes);
  EXPECT_EQ(train::estimate_sharding(whole, 4, link, least), Sharding::parameters);
}

TEST(RankEstimate, TellsWhatOfTheLinkIsHidden) {
  train::StepRequest whole{.model = models::find_model("gpt2-nano"), .threads = 1};
  whole.step = options_of({.model = "gpt2-nano", .batch = 8});
  whole.step.train.bucket_bytes = 512;
  const train::RankEstimate estimate = train::estimate_ranks(whole, 4, Sharding::none, train::parse_link("NVLink"));
  EXPECT_GT(estimate.communication_s, estimate.waited_s);
  EXPECT_GT(estimate.hidden(), 0);
  EXPECT_EQ(estimate.step_s(), estimate.compute_s + estimate.waited_s);
  // As a plan has it: what is waited for is in its time.
  train::StepRequest of_rank = train::request_of_ranks(whole, 4, Sharding::none);
  of_rank.link = train::parse_link("10GbE");
  const train::ModelForms model(of_rank);
  const auto planned = plan::plan_step(model.forms(), {});
  const auto& step = std::get<plan::StepPlan>(planned);
  const train::RankEstimate rank = train::estimate_rank(model.request(), step, *of_rank.link);
  EXPECT_GT(rank.waited_s, 0);
  EXPECT_LE(rank.waited_s, rank.communication_s);
  EXPECT_NEAR(rank.step_s(), step.predicted_s, 1e-12);
}

}  // namespace
}  // namespace plimsoll

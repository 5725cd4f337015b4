// The ops between ranks on the cards of the stand-ins, beside the CPU's with ranks that are threads.
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/collective.h"
#include "tests/cuda/collective_step.h"
#include "tests/device/on_cards.h"

namespace plimsoll {
namespace {

using device::OnCard;
using device::ThreadRanks;
using Ranks = std::shared_ptr<device::Communicator>;
using Outputs = std::vector<std::vector<float>>;

std::vector<Outputs> expected_of(int ranks, int64_t elements) {
  std::vector<Outputs> expected(static_cast<size_t>(ranks));
  ThreadRanks(ranks).run([&](const Ranks& group) {
    const kernels::CommunicatorScope scope(group);
    const int rank = group->rank();
    expected[static_cast<size_t>(rank)] = collective_results("cpu", rank, ranks, elements, 1)[0];
  });
  return expected;
}

// The first step runs op by op, the others are a graph.
TEST(CollectiveKernels, GiveOnCardsWhatTheyDoOnTheHost) {
  constexpr int kSteps = 4;
  for (const int ranks : {1, 2, 3, 4}) {
    device::use_cards(ranks);
    for (const int64_t elements : {7, 24}) {
      const std::vector<Outputs> expected = expected_of(ranks, elements);
      device::run_on_cards(ranks, [&](OnCard& on) {
        const kernels::CommunicatorScope scope(on.ranks);
        const int rank = on.ranks->rank();
        const auto results = collective_results(on.card.traits().name, rank, ranks, elements, kSteps);
        for (const Outputs& step : results) EXPECT_EQ(step, expected[static_cast<size_t>(rank)]) << ranks << " ranks";
      });
    }
    EXPECT_EQ(stand_in_counts().launches, int64_t{2} * ranks * (kSteps - 1));
    EXPECT_EQ(stand_in_counts().faults, 0);
    EXPECT_EQ(stand_in_nccl_counts().differing, 0);
    EXPECT_EQ(stand_in_nccl_counts().communicators, 0);
  }
}

TEST(CollectiveKernels, NeedACommunicatorOfCards) {
  device::use_cards(1);
  EXPECT_THROW(collective_results("cuda:0", 0, 1, 7, 1), UnsupportedError);
  ThreadRanks(1).run([](const Ranks& group) {
    const kernels::CommunicatorScope scope(group);
    EXPECT_THROW(collective_results("cuda:0", 0, 1, 7, 1), UnsupportedError);
  });
}

// Sums of f16 and bf16 are f32, in scratch.
TEST(CollectiveKernels, CountTheirScratch) {
  for (const auto& [dtype, expected] : {std::pair{DType::f32, 0}, {DType::bf16, 4096}, {DType::f16, 4096}}) {
    program::Builder b;
    b.output(program::all_reduce(b, program::clone(b, b.parameter("x", {dtype, {1000}})), 2));
    const kernels::Lowered lowered = kernels::prepare(std::move(b).finish(), {.device = "cuda:0"});
    EXPECT_EQ(lowered.scratch_bytes()[1], expected);
  }
}

std::vector<int64_t> things() {
  const StandInCounts counts = stand_in_counts();
  return {counts.streams, counts.events,   counts.allocations, counts.graphs,
          counts.handles, counts.mappings, counts.ranges,      stand_in_nccl_counts().communicators};
}

void run_steps(OnCard& on) {
  const kernels::CommunicatorScope scope(on.ranks);
  collective_results(on.card.traits().name, on.ranks->rank(), on.ranks->ranks(), 7, 3);
}

TEST(CollectiveKernels, WhateverCallFailsIsToldAndLeaksNothing) {
  device::use_cards(1);
  const int64_t before = stand_in_calls();
  device::run_on_cards(1, run_steps);
  const int64_t calls = stand_in_calls() - before;
  const std::vector<int64_t> at_rest = things();
  for (int64_t n = 1; n <= calls; ++n) {
    stand_in_fail_at(n);
    try {
      device::run_on_cards(1, run_steps);
    } catch (const Error&) {  // typed; what a capture meets is met again op by op, or not
    }
    stand_in_fail_at(0);
    EXPECT_EQ(things(), at_rest) << "call " << n;
  }
  EXPECT_EQ(stand_in_counts().faults, 0);
}

}  // namespace
}  // namespace plimsoll

// Who waited for whom, of the times that ranks were in their collectives.
#include "plimsoll/train/rank_waits.h"

#include <gtest/gtest.h>

#include "plimsoll/device/thread_ranks.h"
#include "plimsoll/kernels/collective.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/report/rank_waits.h"
#include "plimsoll/train/fitted_training.h"
#include "tests/train/outcome.h"

namespace plimsoll::train {
namespace {

// The transfer takes 0.1 s each time.
RankWaits late(double rank0, double rank1, double rank2) {
  return {.collectives = {{"all_reduce a", {0.1 + rank0, 0.1 + rank1, 0.1 + rank2}}, {"all_reduce b", {0.1, 0.1, 0.1}}},
          .run_seconds = 10};
}

TEST(RankWaits, AreWhatIsLongerThanTheLastOneToCome) {
  const RankWaits waits = late(3, 0, 5);
  EXPECT_NEAR(waits.waited(0), 3, 1e-9);
  EXPECT_NEAR(waits.waited(1), 0, 1e-9);
  EXPECT_NEAR(waits.waited_by_others(1), 4, 1e-9);
}

TEST(RankWaits, NameTheRankThatTheOthersWaitFor) {
  EXPECT_EQ(late(3, 0, 5).slow_rank(), 1);
  EXPECT_EQ(late(0.1, 0, 0.2).slow_rank(), std::nullopt);  // it is not worth a word
  RankWaits mutual = late(3, 0, 5);                        // each is late for one of them
  mutual.collectives[1].seconds = {0.1, 5, 0.1};
  EXPECT_EQ(mutual.slow_rank(), std::nullopt);
  EXPECT_EQ(RankWaits{}.slow_rank(), std::nullopt);
}

TEST(RankWaits, ReadAsALineAndATable) {
  EXPECT_EQ(report::waits_line({}), "");
  EXPECT_NE(report::waits_line(late(3, 0, 5)).find("rank 1 is slow, and the others wait 40 % of their time for it"),
            std::string::npos);
  EXPECT_NE(report::waits_line(late(0, 0, 0)).find("none is slow"), std::string::npos);
  const std::string table = report::waits_table(late(3, 0, 5));
  EXPECT_LT(table.find("all_reduce a"), table.find("all_reduce b"));
  EXPECT_NE(table.find("rank 2"), std::string::npos);
}

TEST(RankWaits, AreOfEachCollectiveOfTheStepOnEachRank) {
  std::vector<RankWaits> found(2);
  device::ThreadRanks(2).run([&](const std::shared_ptr<device::Communicator>& group) {
    const kernels::CommunicatorScope scope(group);
    StepRequest request{.model = models::find_model("mlp"), .threads = 1};
    request.step = options_of({.model = "mlp", .batch = 4});
    TrainerOptions options;
    options.part = part_of_rank(group, 4);
    const ModelForms model(request_of_part(request, options.part, program::Sharding::none));
    FittedTraining training(model, "", options);
    ASSERT_FALSE(training.fit(machine_budget()));
    for (int i = 0; i < 3; ++i) training.step();
    found[static_cast<size_t>(group->rank())] = gather_waits(options.part, *training.fitted().session, 1);
  });
  int64_t collectives = 0;
  for (const RankWaits& waits : found) {
    EXPECT_EQ(waits.ranks(), 2U);
    EXPECT_EQ(waits.collectives.size(), found[0].collectives.size());
    for (const CollectiveWait& collective : waits.collectives) {
      for (const double seconds : collective.seconds) EXPECT_GT(seconds, 0);
      ++collectives;
    }
  }
  EXPECT_GT(collectives, 0);
  EXPECT_NEAR(found[0].waited(1), found[1].waited(1), 1e-12);
}

// Micro-batches of two samples: 2, 2 and 1 of rank 0, and 2 and 2 of rank 1, each size a program of its own.
TEST(RankWaits, AreOfRanksWithOtherMicroBatches) {
  std::vector<RankWaits> found(2);
  device::ThreadRanks(2).run([&](const std::shared_ptr<device::Communicator>& group) {
    const kernels::CommunicatorScope scope(group);
    StepRequest request{.model = models::find_model("mlp"), .threads = 1};
    request.step = options_of({.model = "mlp", .batch = 9});
    const RankPart part = part_of_rank(group, 9);
    const ModelForms model(request_of_part(request, part, program::Sharding::gradients));
    const plan::StepForms forms = model.forms();
    const std::vector<int64_t> sizes = plan::micro_batch_sizes(model.batch(), 2);
    std::vector<run::Planned> programs;
    const auto add = [&](kernels::Lowered lowered) {
      plan::MemoryPlan memory = plan::plan_memory(lowered);
      programs.push_back({std::move(lowered), std::move(memory)});
    };
    add(forms.micro_batch(sizes.front()));
    if (sizes.back() != sizes.front()) add(forms.micro_batch(sizes.back()));
    add(forms.update());
    run::Session session(std::move(programs), machine_budget());
    model.start(session.executor(), 1);
    MicroBatchTrainer trainer(micro_batches_of(session, sizes, model.split_of({})), {.part = part});
    for (int i = 0; i < 3; ++i) trainer.step();
    found[static_cast<size_t>(group->rank())] = gather_waits(part, session, 1);
  });
  ASSERT_FALSE(found[0].collectives.empty());
  ASSERT_EQ(found[0].collectives.size(), found[1].collectives.size());
  for (size_t i = 0; i < found[0].collectives.size(); ++i) {
    EXPECT_EQ(found[0].collectives[i].name, found[1].collectives[i].name);
    EXPECT_EQ(found[0].collectives[i].seconds, found[1].collectives[i].seconds);
  }
}

}  // namespace
}  // namespace plimsoll::train

// A loss that is not finite is told with the sample that it comes from.
#include "plimsoll/train/not_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "plimsoll/device/thread_ranks.h"
#include "plimsoll/kernels/collective.h"
#include "plimsoll/train/fitted_training.h"
#include "tests/train/outcome.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kBatchOfRanks = 6;

// One value of one sample is not finite; sample i is number 100 + i of the data.
class BadBatch : public Batch {
 public:
  explicit BadBatch(int64_t bad) : bad_(bad) {}

  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override {
    SyntheticBatch(1).read(program, input, first, into);
    const program::ValueInfo& info = program[input];
    const int64_t row = bad_ - first;
    if (info.type.dtype != DType::f32 || row < 0 || row >= info.type.shape[0].constant()) return;
    const auto each = into.size() / static_cast<size_t>(info.type.shape[0].constant());
    const float bad = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(into.data() + static_cast<size_t>(row) * each + each / 2, &bad, sizeof bad);
  }
  std::optional<int64_t> index_of(int64_t sample) const override { return 100 + sample; }

 private:
  int64_t bad_;
};

StepRequest mlp_request() {
  StepRequest request{.model = models::find_model("mlp"), .threads = 1};
  request.step = options_of({.model = "mlp", .batch = kBatchOfRanks});
  return request;
}

// What a rank has to say after a step on the batch.
std::optional<NotFinite> after_a_step(const RankPart& part, int64_t bad) {
  const ModelForms model(request_of_part(mlp_request(), part, program::Sharding::none));
  TrainerOptions options;
  options.part = part;
  FittedTraining training(model, "", options);
  if (training.fit(machine_budget())) throw ArgumentError("it must fit");
  const BadBatch batch(bad);
  const float loss = training.step(batch);
  EXPECT_EQ(std::isfinite(loss), bad < 0);
  return training.find_not_finite(&batch);
}

TEST(NotFinite, IsOfTheSampleWhoseDataIsSo) {
  const auto found = after_a_step({}, 4);
  ASSERT_TRUE(found);
  EXPECT_EQ(text_of(*found), "sample 4 of the batch (104 of the data): its x has values that are not finite");
  EXPECT_FALSE(after_a_step({}, -1));
}

TEST(NotFinite, IsToldByTheRankThatHasTheSample) {
  std::vector<std::string> texts(3);
  device::ThreadRanks(3).run([&](const std::shared_ptr<device::Communicator>& group) {
    const kernels::CommunicatorScope scope(group);
    const auto found = after_a_step(part_of_rank(group, kBatchOfRanks), 3);
    if (found) texts[static_cast<size_t>(group->rank())] = text_of(*found);
  });
  EXPECT_EQ(texts[0], "");
  EXPECT_EQ(texts[1], "sample 3 of the batch (103 of the data): its x has values that are not finite");
  EXPECT_EQ(texts[2], "");
}

TEST(NotFinite, OfFiniteDataIsOfAllSamplesOfTheRank) {
  EXPECT_EQ(text_of({.first = 3, .samples = 3}), "samples 3 to 5 of the batch: their inputs are finite");
  EXPECT_EQ(text_of({.first = 3, .samples = 1, .index = 7}),
            "sample 3 of the batch (7 of the data): its inputs are finite");
}

}  // namespace
}  // namespace plimsoll::train

// The batch in chunks for some ops against the batch as a whole: same data, same loss, same gradients.
#include "plimsoll/plan/batch_chunks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/program/text.h"
#include "tests/train/outcome.h"

namespace plimsoll {
namespace {

using program::ChunkPlaces;
using program::StepForm;

ChunkPlaces places_of(const Case& tested) {
  return models::find_chunk_places(models::find_model(tested.model), options_of(tested));
}

Outcome train_chunked(const Case& tested, const StepForm& form) {
  models::StepOptions options = options_of(tested);
  options.form = form;
  const models::Step step = models::build_whole_step(models::find_model(tested.model), options);
  run::Session session(step.program, {.threads = tested.threads}, machine_budget());
  start_values(session.executor(), step.inits, step.state_inits);
  train::Trainer trainer(session.executor(), trainer_options(tested));
  return outcome_of(trainer, session.executor());
}

class InChunks : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Models, InChunks,
                         testing::Values(Case{"vgg16", 4}, Case{"unet", 4}, Case{"gpt2-nano", 6, true},
                                         Case{"gpt2-nano", 4, true, 0.5}, Case{"vit_b_16", 4}, Case{"p14", 4}));

TEST_P(InChunks, TrainsAsTheWholeBatch) {
  const Outcome whole = train_whole(GetParam());
  const ChunkPlaces places = places_of(GetParam());
  ASSERT_FALSE(places.empty());
  std::vector<StepForm> ways;
  if (!places.first.empty()) ways.push_back({2, places.first.front(), 0, true});
  if (!places.last.empty()) ways.push_back({GetParam().batch, 0, places.last.front()});
  for (const StepForm& form : ways) {
    SCOPED_TRACE(testing::Message() << form.chunks << " chunks of " << form.first << ", " << form.last);
    const Outcome chunked = train_chunked(GetParam(), form);
    for (int i = 0; i < kSteps; ++i) EXPECT_NEAR(chunked.losses[i], whole.losses[i], 2e-6 * std::abs(whole.losses[i]));
    EXPECT_LT(largest_difference(whole, chunked), 2e-6);
  }
}

TEST(Chunks, AreNotForOpsThatMixSamples) {
  EXPECT_TRUE(places_of({"resnet18", 4}).first.empty());  // batch normalisation comes second
  EXPECT_THROW(train_chunked({"resnet18", 4}, {2, 3, 0}), ArgumentError);
}

TEST(Chunks, AreNotForOpsThatReadSamplesAcross) {
  const auto places_of = [](const std::string& input) {
    const program::Program model = program::parse_program(input + R"(
      parameter %w: f32[2,8]
      %y = linear(%rows, %w)
      %z = neg(%y)
      output %z)");
    return program::find_chunk_places(model, model.outputs[0]).first;
  };
  EXPECT_EQ(places_of("input %x: f32[batch,8]\n%rows = exp(%x)"), std::vector<int32_t>{2});
  EXPECT_EQ(places_of("input %x: f32[8,batch]\n%rows = transpose(%x) {axes=[1,0]}"), std::vector<int32_t>{});
}

TEST(Chunks, DivideTheBatch) {
  const Case tested{"vgg16", 4};
  EXPECT_THROW(train_chunked(tested, {3, places_of(tested).first.front(), 0}), ArgumentError);
}

// Needs of a step whose ops 0 and 1 need 100 bytes whole, whose last needs 80, and the others 10.
int64_t needs_of(const StepForm& form) {
  const int64_t first = form.first >= 2 ? 100 / form.chunks : 100;
  const int64_t last = form.last >= 1 ? 80 / form.chunks : 80;
  return std::max({first, last, int64_t{10}});
}

TEST(Chunks, AreChosenWhereAnOpNeedsTooMuch) {
  const ChunkPlaces places{20, {1, 2, 5}, {1, 3}};
  const plan::ChunkChoice choice{places, 16, needs_of({}), needs_of};
  EXPECT_EQ(plan::choose_chunks(choice, 100), std::nullopt);
  EXPECT_EQ(plan::choose_chunks(choice, 90), (StepForm{4, 2, 0, true}));
  EXPECT_EQ(plan::choose_chunks(choice, 50), (StepForm{4, 2, 1, true}));
  EXPECT_EQ(plan::choose_chunks(choice, 10), (StepForm{16, 2, 1, true}));
}

}  // namespace
}  // namespace plimsoll

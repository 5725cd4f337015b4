// One batch over several ranks, which are threads here, against the same batch on one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "plimsoll/base/error.h"
#include "plimsoll/device/thread_ranks.h"
#include "plimsoll/kernels/collective.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/plan/step_oracle.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/train/micro_batch_trainer.h"
#include "plimsoll/train/rank_part.h"
#include "tests/train/outcome.h"

namespace plimsoll {
namespace {

using program::Sharding;
using Ranks = std::shared_ptr<device::Communicator>;

constexpr int64_t kBucket = 512;  // these models have a few kilobytes

enum class Form { whole, recompute, micro_batches };

struct RunCase {
  std::string_view model = "mlp";
  int64_t batch = 12;
  Form form = Form::whole;
  Sharding sharding = Sharding::none;
  program::Optimizer optimizer = program::Optimizer::adam;
  std::optional<double> clip_norm = {};
  bool uneven_targets = false;
  DType precision = DType::f32;
  double dropout = 0;
};

train::StepRequest request_of(const RunCase& tested) {
  train::StepRequest request{.model = models::find_model(tested.model), .threads = 1};
  request.step = options_of({.model = tested.model, .batch = tested.batch, .precision = tested.precision});
  request.step.train.optimizer = tested.optimizer;
  request.step.train.clip_norm = tested.clip_norm;
  request.step.train.bucket_bytes = kBucket;
  request.allow = {std::string(train::kBatchNormMicroBatches)};
  request.micro_batches = tested.form == Form::micro_batches;
  return request;
}

// That makes the form the one that is asked for: what the step takes as it is, or the least that will do.
int64_t arena_for(const RunCase& tested, const plan::StepForms& forms) {
  if (tested.form != Form::recompute) return plan::plan_memory(forms.whole()).placement.arena_bytes;
  return std::get<plan::Refusal>(plan::plan_step(forms, {.budget_bytes = 4096})).smallest_bytes;
}

struct Trained {
  std::vector<float> losses = {};
  std::map<std::string, std::vector<float>> parameters = {};
  int64_t arena_bytes = 0;
  size_t micro_batches = 0;
  size_t recomputed = 0;
};

void finish(Trained& trained, run::Executor& executor) {
  for (const program::Value parameter : executor.program().parameters) {
    if (executor.program()[parameter].type.dtype != DType::f32) continue;
    trained.parameters[executor.program()[parameter].name] = executor.read<float>(parameter);
  }
}

train::TrainerOptions trainer_of(const RunCase& tested, const train::RankPart& part) {
  train::TrainerOptions options{.rate = 1e-2, .seed = 1, .part = part};
  if (tested.uneven_targets) options.batch = std::make_shared<UnevenBatch>(-100);
  return options;
}

run::Planned as_it_is(kernels::Lowered lowered) {
  plan::MemoryPlan memory = plan::plan_memory(lowered);
  return {std::move(lowered), std::move(memory)};
}

// In micro-batches of two samples.
Trained train_in_micro_batches(const RunCase& tested, const train::RankPart& part) {
  const train::ModelForms model(train::request_of_part(request_of(tested), part, tested.sharding));
  const plan::StepForms forms = model.forms();
  const std::vector<int64_t> sizes = plan::micro_batch_sizes(model.batch(), 2);
  std::vector<run::Planned> programs;
  programs.push_back(as_it_is(forms.micro_batch(sizes.front())));
  if (sizes.back() != sizes.front()) programs.push_back(as_it_is(forms.micro_batch(sizes.back())));
  programs.push_back(as_it_is(forms.update()));
  run::Session session(std::move(programs), machine_budget());
  Trained trained;
  trained.micro_batches = sizes.size();
  model.start(session.executor(), 1);
  train::MicroBatchTrainer trainer(train::micro_batches_of(session, sizes, model.split_of({})),
                                   trainer_of(tested, part));
  for (int i = 0; i < kSteps; ++i) trained.losses.push_back(trainer.step());
  finish(trained, session.executor());
  return trained;
}

Trained train_part(const RunCase& tested, const train::RankPart& part, int64_t arena_bytes) {
  if (tested.form == Form::micro_batches) return train_in_micro_batches(tested, part);
  const train::ModelForms model(train::request_of_part(request_of(tested), part, tested.sharding));
  const plan::StepForms forms = model.forms();
  const plan::PlanOptions options{.budget_bytes = arena_bytes};
  auto planned = part ? train::peers_of(model, part).plan(forms, options) : plan::plan_step(forms, options);
  if (const auto* refusal = std::get_if<plan::Refusal>(&planned)) throw ArgumentError(refusal->text());
  auto& step = std::get<plan::StepPlan>(planned);
  if (const auto fault = plan::find_fault(step, model.batch())) throw ArgumentError(*fault);
  Trained trained;
  trained.arena_bytes = step.arena_bytes;
  trained.micro_batches = step.sizes.size();
  for (const plan::Measure& measure : step.measures()) trained.recomputed += measure.kind == "recompute" ? 1 : 0;
  const auto session = train::bind_plan(step, machine_budget());
  train::require_same_collectives(part, *session);
  model.start(session->executor(), 1);
  train::Trainer trainer(session->executor(), trainer_of(tested, part));
  for (int i = 0; i < kSteps; ++i) trained.losses.push_back(trainer.step());
  finish(trained, session->executor());
  return trained;
}

// Of every rank.
std::vector<Trained> train_on(int ranks, const RunCase& tested) {
  std::vector<Trained> all(static_cast<size_t>(ranks));
  device::ThreadRanks(ranks, {.timeout_s = 60}).run([&](const Ranks& group) {
    const kernels::CommunicatorScope scope(group);
    const train::RankPart part = train::part_of_rank(group, tested.batch);
    const train::ModelForms model(train::request_of_part(request_of(tested), part, tested.sharding));
    const int64_t arena = device::most_over(*group, arena_for(tested, model.forms()));
    all[static_cast<size_t>(group->rank())] = train_part(tested, part, arena);
  });
  return all;
}

Trained train_alone(RunCase tested) {
  tested.form = Form::whole;
  const train::ModelForms model(request_of(tested));
  return train_part(tested, {}, arena_for(tested, model.forms()));
}

void expect_same_losses(const Trained& ranks, const Trained& alone, double tolerance) {
  ASSERT_EQ(ranks.losses.size(), alone.losses.size());
  for (size_t i = 0; i < alone.losses.size(); ++i) {
    EXPECT_NEAR(ranks.losses[i], alone.losses[i], tolerance * std::abs(alone.losses[i])) << "step " << i + 1;
  }
}

std::string name_of(const RunCase& tested) {
  constexpr const char* kForms[] = {"whole", "recompute", "micro_batches"};
  std::string text = fmt::format("{}_{}_{}_{}", tested.model, tested.batch, kForms[static_cast<int>(tested.form)],
                                 name(tested.sharding));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

class RanksTrain : public testing::TestWithParam<RunCase> {};

std::vector<RunCase> all_cases() {
  std::vector<RunCase> cases;
  for (const std::string_view model : {"mlp", "lenet", "gpt2-nano"}) {
    for (const Form form : {Form::whole, Form::recompute, Form::micro_batches}) {
      for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
        if (model != "gpt2-nano" && form == Form::recompute) continue;  // the others have nothing worth it
        cases.push_back({.model = model, .batch = 12, .form = form, .sharding = sharding});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Zoo, RanksTrain, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<RunCase>& of) { return name_of(of.param); });

TEST_P(RanksTrain, AsOneRankDoes) {
  const Trained alone = train_alone(GetParam());
  for (const int ranks : {1, 2, 3, 4}) {
    const std::vector<Trained> all = train_on(ranks, GetParam());
    expect_same_losses(all[0], alone, 1e-6);
    for (const Trained& other : all) {
      EXPECT_EQ(other.losses, all[0].losses);
      // To the bit, on every rank; of a parameter that is spread each has another part.
      EXPECT_TRUE(GetParam().sharding == Sharding::parameters || other.parameters == all[0].parameters);
      EXPECT_EQ(other.arena_bytes, all[0].arena_bytes);
    }
    EXPECT_EQ(GetParam().form == Form::micro_batches, all[0].micro_batches > 1);
    EXPECT_TRUE(GetParam().form != Form::recompute || all[0].recomputed > 0);
  }
}

TEST(RanksTrainTwice, ToTheSameBits) {
  for (const Sharding sharding : {Sharding::none, Sharding::parameters}) {
    for (const Form form : {Form::whole, Form::micro_batches}) {
      const RunCase tested{.model = "gpt2-nano", .batch = 9, .form = form, .sharding = sharding};
      EXPECT_EQ(train_on(3, tested)[0].parameters, train_on(3, tested)[0].parameters);
    }
  }
}

// With 5, 4 and 4 samples the ranks have 3 micro-batches, 2 and 2.
TEST(RanksTrainUnevenBatchesInShards, AsOneRankDoes) {
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    for (const Form form : {Form::whole, Form::micro_batches}) {
      const RunCase tested{.model = "lenet", .batch = 13, .form = form, .sharding = sharding};
      expect_same_losses(train_on(3, tested)[0], train_alone(tested), 1e-6);
    }
  }
}

TEST(RanksTrainUnevenBatches, AsOneRankDoes) {
  for (const std::string_view model : {"mlp", "lenet", "gpt2-nano"}) {
    for (const Form form : {Form::whole, Form::micro_batches}) {
      const RunCase tested{.model = model, .batch = 11, .form = form, .clip_norm = 0.1};
      const Trained alone = train_alone(tested);
      for (const int ranks : {2, 3, 4}) expect_same_losses(train_on(ranks, tested)[0], alone, 1e-6);
    }
  }
}

// Losses are means over the targets that count, of which ranks have different numbers.
TEST(RanksTrainUnevenTargets, AsOneRankDoes) {
  for (const Form form : {Form::whole, Form::micro_batches}) {
    const RunCase tested{.model = "gpt2-nano", .batch = 6, .form = form, .uneven_targets = true};
    const Trained alone = train_alone(tested);
    for (const int ranks : {2, 3}) expect_same_losses(train_on(ranks, tested)[0], alone, 1e-6);
  }
}

TEST(RanksClip, ByTheNormOverAllRanks) {
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::parameters}) {
    const RunCase tested{
        .model = "lenet", .sharding = sharding, .optimizer = program::Optimizer::sgd, .clip_norm = 0.01};
    RunCase unclipped = tested;
    unclipped.clip_norm = {};
    const Trained alone = train_alone(tested);
    EXPECT_NE(alone.losses[1], train_alone(unclipped).losses[1]);
    expect_same_losses(train_on(4, tested)[0], alone, 1e-6);
  }
}

TEST(RanksTrainInBf16, ToRounding) {
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::parameters}) {
    const RunCase tested{.model = "gpt2-nano", .sharding = sharding, .precision = DType::bf16};
    expect_same_losses(train_on(2, tested)[0], train_alone(tested), 0x1p-7);
  }
}

TEST(RanksTrainWithEveryOptimizer, AsOneRankDoes) {
  using enum program::Optimizer;
  for (const program::Optimizer optimizer : {sgd, momentum, adamw, lion}) {
    const RunCase tested{.model = "mlp", .sharding = Sharding::optimizer, .optimizer = optimizer};
    expect_same_losses(train_on(3, tested)[0], train_alone(tested), 1e-6);
  }
  const RunCase factored{.sharding = Sharding::optimizer, .optimizer = adafactor};
  EXPECT_THROW(train_on(2, factored), UnsupportedError);
}

// The whole of it is in no rank's memory: neither as parameters nor as state.
TEST(RanksShardParameters, IntoEqualParts) {
  models::StepOptions options = options_of({.model = "gpt2-nano", .batch = 4});
  const auto bytes_of = [&] {
    const program::Program step = models::build_step(models::find_model("gpt2-nano"), options);
    int64_t bytes = 0;
    for (const program::Value parameter : step.parameters) bytes += step[parameter].type.bytes().constant();
    return bytes;
  };
  const int64_t whole = bytes_of();
  options.train.ranks = 4;
  options.train.sharding = Sharding::parameters;
  options.train.bucket_bytes = kBucket;
  EXPECT_LT(bytes_of(), whole / 3);  // what is too small to be spread aside
}

// State is a part of it to the element; what is left over at the end is filled up.
TEST(RanksShardOptimizerState, IntoEqualParts) {
  const auto state_bytes = [](int ranks, Sharding sharding) {
    models::StepOptions options = options_of({.model = "gpt2-nano", .batch = 4});
    options.train.optimizer = program::Optimizer::adam;
    options.train.ranks = ranks;
    options.train.sharding = sharding;
    const auto estimate = plan::estimate(models::build_step(models::find_model("gpt2-nano"), options));
    return estimate.total[static_cast<size_t>(Category::optimizer_state)];
  };
  const int64_t whole = state_bytes(4, Sharding::none);
  const int64_t part = state_bytes(4, Sharding::optimizer);
  EXPECT_EQ(whole, state_bytes(1, Sharding::none));
  EXPECT_GE(part, whole / 4);
  EXPECT_LT(part, whole / 4 + 4096);
}

TEST(RanksAgree, OnOneRefusal) {
  std::vector<std::string> texts(3);
  const RunCase tested{.model = "lenet", .batch = 7};
  device::ThreadRanks(3).run([&](const Ranks& group) {
    const train::RankPart part = train::part_of_rank(group, tested.batch);
    const train::ModelForms model(train::request_of_part(request_of(tested), part, tested.sharding));
    const auto planned = train::peers_of(model, part).plan(model.forms(), {.budget_bytes = 4096});
    texts[static_cast<size_t>(group->rank())] = std::get<plan::Refusal>(planned).text();
  });
  EXPECT_FALSE(texts[0].empty());
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
}

// What one rank takes whole is too little for the sample more that the other has, but for micro-batches: then none is
// taken in those, in which sums would come in another order.
TEST(RanksAgree, OnMicroBatches) {
  const RunCase tested{.model = "lenet", .batch = 65, .form = Form::micro_batches};
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients}) {
    std::vector<std::string> forms(2);
    device::ThreadRanks(2).run([&](const Ranks& group) {
      const train::RankPart part = train::part_of_rank(group, tested.batch);
      train::StepRequest request = request_of(tested);
      request.recompute = false;
      const train::ModelForms model(train::request_of_part(std::move(request), part, sharding));
      const int64_t arena = device::least_over(*group, arena_for(tested, model.forms()));
      const auto planned = train::peers_of(model, part).plan(model.forms(), {.budget_bytes = arena});
      const auto* step = std::get_if<plan::StepPlan>(&planned);
      const auto form = [&] { return step->in_micro_batches() ? "in micro-batches" : "whole"; };
      forms[static_cast<size_t>(group->rank())] = step == nullptr ? "refused" : form();
    });
    EXPECT_EQ(forms[0], forms[1]) << name(sharding);
    EXPECT_NE(forms[0], "in micro-batches") << name(sharding);
  }
}

TEST(RanksAgree, OnTheProgram) {
  EXPECT_THROW(device::ThreadRanks(2).run([&](const Ranks& group) {
    RunCase tested{.model = "mlp", .batch = 8};
    if (group->rank() == 1) tested.optimizer = program::Optimizer::sgd;
    const kernels::CommunicatorScope scope(group);
    train_part(tested, train::part_of_rank(group, tested.batch), 1 << 30);
  }),
               Error);
}

// Of a rank whose targets make no sense, while gathers and sums are under way in its arena.
class BadBatch : public train::SyntheticBatch {
 public:
  BadBatch() : SyntheticBatch(1) {}

  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override {
    SyntheticBatch::read(program, input, first, into);
    if (program[input].name != "target") return;
    for (int64_t& target : std::span(reinterpret_cast<int64_t*>(into.data()), into.size() / sizeof(int64_t))) {
      target = 1'000'000;
    }
  }
};

TEST(RanksFail, WithWhatOneOfThemFound) {
  for (const Sharding sharding : {Sharding::none, Sharding::parameters}) {
    const RunCase tested{.model = "lenet", .sharding = sharding};
    const auto train = [&](const Ranks& group) {
      const kernels::CommunicatorScope scope(group);
      const train::RankPart part = train::part_of_rank(group, tested.batch);
      const train::ModelForms model(train::request_of_part(request_of(tested), part, tested.sharding));
      std::vector<run::Planned> programs;
      programs.push_back(as_it_is(model.forms().whole()));
      run::Session session(std::move(programs), machine_budget());
      model.start(session.executor(), 1);
      train::TrainerOptions options = trainer_of(tested, part);
      if (group->rank() == 1) options.batch = std::make_shared<BadBatch>();
      train::Trainer trainer(session.executor(), options);
      trainer.step();
    };
    EXPECT_THROW(device::ThreadRanks(3, {.timeout_s = 2}).run(train), ArgumentError) << name(sharding);
  }
}

TEST(RanksNeed, ASampleEach) {
  EXPECT_THROW(device::ThreadRanks(4).run([](const Ranks& group) { train::part_of_rank(group, 3); }), ArgumentError);
}

// The gradient of each rank is summed once, and where it is ready.
TEST(RanksProgram, ReducesEachGradientOnce) {
  models::StepOptions options = options_of({.model = "gpt2-nano", .batch = 4});
  options.train.ranks = 4;
  options.train.bucket_bytes = kBucket;
  const program::Program step = models::build_step(models::find_model("gpt2-nano"), options);
  EXPECT_LT(program::collectives(step), static_cast<int64_t>(step.parameters.size()));  // small ones together
  int64_t bytes = 0;
  for (const program::Value parameter : step.parameters) bytes += step[parameter].type.bytes().constant();
  EXPECT_NEAR(static_cast<double>(program::sent_bytes(step)), 1.5 * static_cast<double>(bytes), 4.0 * 1000);
  const auto is_reduction = [](const program::Op& op) { return program::is_collective(*op.def); };
  const auto is_backward = [](const program::Op& op) { return op.phase == program::Phase::backward; };
  const auto first = std::find_if(step.ops.begin(), step.ops.end(), is_reduction);
  EXPECT_TRUE(std::any_of(first, step.ops.end(), is_backward));
}

TEST(RanksProgram, RefusesWhatMixesSamples) {
  models::StepOptions options = options_of({.model = "resnet18", .batch = 4});
  options.train.ranks = 2;
  options.through_batch_norm = false;
  EXPECT_THROW(models::build_step(models::find_model("resnet18"), options), UnsupportedError);
  options.through_batch_norm = true;
  EXPECT_GT(program::collectives(models::build_step(models::find_model("resnet18"), options)), 0);
}

}  // namespace
}  // namespace plimsoll

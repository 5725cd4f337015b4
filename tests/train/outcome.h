// What training comes to: losses and gradients, for tests that compare two ways of it.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/synthetic.h"
#include "plimsoll/train/trainer.h"
#include "tests/test_device.h"

namespace plimsoll {

inline constexpr int kSteps = 3;

// Made-up data in which some targets do not count, more of them in later samples.
class UnevenBatch : public train::SyntheticBatch {
 public:
  explicit UnevenBatch(int64_t ignored) : SyntheticBatch(1), ignored_(ignored) {}

  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override {
    SyntheticBatch::read(program, input, first, into);
    const program::ValueInfo& info = program[input];
    if (info.name != "target" || info.type.dtype != DType::i64) return;
    const std::span<int64_t> targets(reinterpret_cast<int64_t*>(into.data()), into.size() / sizeof(int64_t));
    const auto each = static_cast<int64_t>(targets.size()) / info.type.shape[0].constant();
    for (size_t i = 0; i < targets.size(); ++i) {
      const int64_t sample = first + static_cast<int64_t>(i) / each;
      if (static_cast<int64_t>(i) % each < std::min(sample, each) || sample == 2) targets[i] = ignored_;
    }
  }

 private:
  int64_t ignored_;
};

struct Outcome {
  std::vector<float> losses;
  std::map<std::string, std::vector<float>> gradients;  // of the first step: the velocities after it
};

inline void start_values(run::Executor& executor, const std::vector<models::Init>& inits,
                         const std::vector<models::Init>& state_inits) {
  uint64_t stream = 0;
  for (size_t i = 0; i < inits.size(); ++i) {
    train::start_value(executor, executor.program().parameters[i], inits[i], 1, stream++);
  }
  for (size_t i = 0; i < state_inits.size(); ++i) {
    train::start_value(executor, executor.program().state[i], state_inits[i], 1, stream++);
  }
  // Of f16: 2^8, with which no step of these models is skipped.
  if (const auto scale = executor.program().find("optimizer.loss_scale")) {
    executor.write<int64_t>(scale, std::vector<int64_t>{-8, 0});
  }
}

template <class T>
Outcome outcome_of(T& trainer, run::Executor& executor) {
  Outcome outcome;
  outcome.losses.push_back(trainer.step());
  for (const program::Value state : executor.program().state) {
    const std::string& name = executor.program()[state].name;
    if (!name.ends_with(".velocity")) continue;
    const auto data = executor.read<float>(state);
    outcome.gradients[name] = {data.begin(), data.end()};
  }
  for (int i = 1; i < kSteps; ++i) outcome.losses.push_back(trainer.step());
  return outcome;
}

struct Case {
  std::string_view model;
  int64_t batch;
  bool uneven = false;
  std::optional<double> clip_norm = {};
  int threads = 0;  // all
  DType precision = DType::f32;
};

inline models::StepOptions options_of(const Case& tested) {
  models::StepOptions options = {
      .precision = tested.precision, .sizes = {{"batch", tested.batch}}, .size = models::Size::small};
  if (models::find_model(tested.model).usual.contains("sequence")) options.sizes["sequence"] = 5;
  options.train.optimizer = program::Optimizer::momentum;
  options.train.clip_norm = tested.clip_norm;
  options.through_batch_norm = true;
  return options;
}

inline train::TrainerOptions trainer_options(const Case& tested) {
  train::TrainerOptions options{.rate = 1e-2, .seed = 1};
  if (tested.uneven) options.batch = std::make_shared<UnevenBatch>(-100);
  return options;
}

inline Outcome train_whole(const Case& tested) {
  const models::Step step = models::build_whole_step(models::find_model(tested.model), options_of(tested));
  run::Session session(step.program, on_test_device(tested.threads), machine_budget());
  start_values(session.executor(), step.inits, step.state_inits);
  train::Trainer trainer(session.executor(), trainer_options(tested));
  return outcome_of(trainer, session.executor());
}

inline double length(const std::vector<float>& of) {
  double sum = 0;
  for (const double x : of) sum += x * x;
  return std::sqrt(sum);
}

// The largest over all gradients, each relative to its length. Those that are zero but for rounding do not count: the
// bias of the keys of an attention.
inline double largest_difference(const Outcome& one, const Outcome& other) {
  double worst = 0;
  for (const auto& [name, gradient] : one.gradients) {
    std::vector<float> difference = other.gradients.at(name);
    for (size_t i = 0; i < gradient.size(); ++i) difference[i] -= gradient[i];
    if (length(gradient) > 1e-6) worst = std::max(worst, length(difference) / length(gradient));
  }
  return worst;
}

}  // namespace plimsoll

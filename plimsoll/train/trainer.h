// Steps of training on one batch: of made-up data where none is given, which shows that a program runs, how fast, and
// that its loss falls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plimsoll/run/executor.h"
#include "plimsoll/train/data.h"

namespace plimsoll::train {

struct TrainerOptions {
  double rate = 1e-3;               // of learning
  uint64_t seed = 1;                // of made-up data and of dropout
  std::shared_ptr<Data> data = {};  // nothing: made up
  int64_t steps_before = 0;         // that the parameters have seen: training goes on from there
};

// The program's first output, which must be f32[]; ArgumentError otherwise.
program::Value loss_of(const program::Program& program);

// The inputs that ops draw from: what changes from step to step.
std::vector<program::Value> seeds_of(const program::Program& program);

class Trainer {
 public:
  // The program must be a training step whose first output is the loss. Fills the inputs; parameters and state are the
  // caller's.
  Trainer(run::Executor& executor, const TrainerOptions& options);

  // Runs a step and returns its loss.
  float step();

  int64_t steps() const { return steps_; }

 private:
  run::Executor& executor_;
  TrainerOptions options_;
  program::Value loss_;
  std::vector<program::Value> seeds_;
  int64_t steps_;
};

}  // namespace plimsoll::train

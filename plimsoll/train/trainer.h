// Steps of training on one batch of made-up data: it shows that a program runs, how fast, and that its loss falls.
#pragma once

#include <cstdint>

#include "plimsoll/run/executor.h"

namespace plimsoll::train {

struct TrainerOptions {
  double rate = 1e-3;  // of learning
  uint64_t seed = 1;
};

class Trainer {
 public:
  // The program must be a training step whose first output is the loss, f32[]; ArgumentError otherwise. Fills the
  // inputs; parameters and state are the caller's.
  Trainer(run::Executor& executor, const TrainerOptions& options);

  // Runs a step and returns its loss.
  float step();

  int64_t steps() const { return steps_; }

 private:
  run::Executor& executor_;
  TrainerOptions options_;
  program::Value loss_;
  program::Value dropout_seed_;  // nothing when the program draws nothing
  int64_t steps_ = 0;
};

}  // namespace plimsoll::train

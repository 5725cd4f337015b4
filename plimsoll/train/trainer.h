// Training steps of a program that takes its batch as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plimsoll/run/executor.h"
#include "plimsoll/train/batch.h"
#include "plimsoll/train/not_finite.h"
#include "plimsoll/train/rank_part.h"

namespace plimsoll::train {

struct TrainerOptions {
  double rate = 1e-3;                       // learning rate of the first step
  uint64_t seed = 1;                        // of synthetic data and of dropout
  std::shared_ptr<const Batch> batch = {};  // of steps that are given none; nothing: synthetic data
  int64_t steps_before = 0;                 // that the parameters have seen: training goes on from there
  RankPart part = {};                       // of several ranks: batches are those of all, and so are losses
};

// The program's first output, which must be f32[]; ArgumentError otherwise.
program::Value loss_of(const program::Program& program);

// The inputs that ops draw from: what changes from step to step.
std::vector<program::Value> seeds_of(const program::Program& program);

// What a seed is in a step: a number, and for i64[2] the place in the whole batch of the first sample of the program's.
void write_seed(run::Executor& executor, program::Value seed, int64_t number, int64_t first_sample);

// How many numbers the loss of a program is a mean over, in these samples of a batch; it reads what it counts.
double count_of(run::Executor& executor, const program::LossMean& mean, const Batch& batch, int64_t first_sample);

class Trainer {
 public:
  // The program must be a training step whose first output is the loss. Parameters and state are the caller's.
  Trainer(run::Executor& executor, const TrainerOptions& options);

  // Runs a step on this batch and returns its loss.
  float step(const Batch& batch);
  // On the batch of the options, which is read once as long as no other comes between.
  float step();

  // After a step on this batch whose loss is not finite: where in this rank's samples that comes from; nothing where
  // their own loss is finite.
  std::optional<NotFinite> find_not_finite(const Batch& batch);
  std::optional<NotFinite> find_not_finite() { return find_not_finite(*options_.batch); }

  void set_rate(double rate) { options_.rate = rate; }
  int64_t steps() const { return steps_; }

 private:
  std::vector<program::Value> sample_inputs() const;
  void read(const Batch& batch);
  double weight_of(const Batch& batch);
  float run();

  run::Executor& executor_;
  TrainerOptions options_;
  program::Value loss_;
  std::vector<program::Value> seeds_;
  int64_t steps_;
  bool holds_own_ = false;  // the inputs are those of the options' batch
  double weight_ = 1;       // of the rank's loss in that of the whole batch
  float own_loss_ = 0;      // of the last step, over the rank's samples
};

}  // namespace plimsoll::train

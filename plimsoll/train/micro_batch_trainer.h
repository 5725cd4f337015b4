// Trains on a batch that is taken in micro-batches, so that only one of them is in memory: the same steps as Trainer's,
// to rounding (program/split_step.h).
#pragma once

#include <functional>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/program/split_step.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/trainer.h"

namespace plimsoll::train {

// Executors that take turns in one arena (run::Session), and which micro-batch is whose. They must outlive the trainer.
struct MicroBatches {
  std::vector<int64_t> sizes;                 // samples of each micro-batch, in the order of the batch
  std::vector<run::Executor*> micro_batches;  // one for each size that there is, of the micro-batch program bound to it
  run::Executor* update = nullptr;
  program::LossMean mean;               // as split_training_step tells it
  std::vector<program::Value> samples;  //
};

// Of a session that has an executor for each size of micro-batch, and last the one of the update.
MicroBatches micro_batches_of(run::Session& session, std::vector<int64_t> sizes, const program::SplitStep& split);

// A step was given up between two of its micro-batches. Parameters and state are as they were before it.
class StepGivenUp : public Error {
 public:
  using Error::Error;
};

class MicroBatchTrainer {
 public:
  // ArgumentError for a size that no executor has. Parameters and state are the caller's; the sums of gradients among
  // them are zero.
  MicroBatchTrainer(MicroBatches micro_batches, const TrainerOptions& options);

  // Runs a step on this batch and returns its loss, over the whole batch; it is not a number when the loss counts
  // nothing in it.
  float step(const Batch& batch);
  // On the batch of the options.
  float step() { return step(*options_.batch); }

  // As that of Trainer, in the first micro-batch of which it is so.
  std::optional<NotFinite> find_not_finite(const Batch& batch);
  std::optional<NotFinite> find_not_finite() { return find_not_finite(*options_.batch); }

  void set_rate(double rate) { options_.rate = rate; }

  int64_t steps() const { return steps_; }

  // Called before each micro-batch of a step with the number of those that are done. What it throws ends the step half
  // done.
  std::function<void(int64_t)> on_micro_batch = {};
  // Asked between micro-batches of a step: whether to give it up, which is to throw StepGivenUp. Not asked where
  // micro-batches change more than sums of gradients (statistics of batch normalisation), nor with several ranks.
  std::function<bool()> gives_up = {};

 private:
  struct MicroBatch {
    run::Executor* executor;
    int64_t first;  // sample
    int64_t size;
  };
  std::vector<double> weights(const Batch& batch);
  float run(const MicroBatch& micro_batch, float weight, const Batch& batch);
  void find_micro_batches_of_all();
  void accompany(const Batch& batch);
  void update();
  void give_up();

  TrainerOptions options_;
  MicroBatches micro_batches_;
  std::vector<MicroBatch> order_;
  bool may_give_up_;
  int64_t steps_;
  std::optional<size_t> not_finite_ = {};  // the first micro-batch of the last step whose loss was not
  int64_t micro_batches_of_all_ = 0;       // the most that any rank has in a step; 0: not known yet
};

}  // namespace plimsoll::train

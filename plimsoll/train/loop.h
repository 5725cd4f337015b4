// Trains for some steps or epochs: batches, learning rates, evaluation, checkpoints, a log. What is printed is the
// caller's business, by callbacks. Resumed from a checkpoint, it gives the bits of a run that was never stopped.
//
//   train::Loop loop(training, batches, {.epochs = 10, .checkpoint = {.folder = "run", .every = 500}});
//   train::LoopResult result = loop.run();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "plimsoll/train/batches.h"
#include "plimsoll/train/checkpoint_folder.h"
#include "plimsoll/train/evaluation.h"
#include "plimsoll/train/fitted_training.h"
#include "plimsoll/train/schedule.h"
#include "plimsoll/train/training.h"

namespace plimsoll::train {

struct CheckpointOptions {
  std::string folder = {};    // empty: none are written
  int64_t every = 0;          // steps; 0: at the end alone
  int64_t keep = 3;           // the newest ones
  bool resume = false;        // go on from the newest one, where there is one
  int64_t staging_bytes = 0;  // of the writer; 0: by the model's size
};

struct LoopOptions {
  int64_t steps = 0;   // in all, those of before included; 0: by epochs
  int64_t epochs = 0;  // likewise; 0: by steps. Both: what comes first
  Schedule schedule = {};
  std::shared_ptr<Batches> evaluation = {};  // data for it; nothing: none
  int64_t evaluate_every = 0;                // steps; 0: after each epoch, and at the end
  int64_t patience = 0;                      // evaluations without a better loss after which it ends; 0: never
  CheckpointOptions checkpoint = {};
  // A file of JSON lines; those of steps that a run goes on from stay, others that it had go. Empty: none.
  std::string log = {};

  struct Step {
    int64_t step = 0;
    int64_t epoch = 0;
    float loss = 0;
    double rate = 0;
    double seconds = 0;
    int64_t samples = 0;
    std::optional<int64_t> steps_in_all = {};
  };
  std::function<void(const Step&)> on_step = {};
  // The first loss that is not finite, that of all ranks, and where among this rank's samples it comes from.
  std::function<void(const Step&, const std::optional<NotFinite>&)> on_not_finite = {};
  std::function<void(int64_t step, const Metrics&)> on_evaluation = {};
  std::function<void(const CheckpointFolder::Outcome&)> on_checkpoint = {};
  std::function<void(const RunState&)> on_resume = {};
  // Asked between steps, and between micro-batches where a step can be given up: whether to end now, after a
  // checkpoint.
  std::function<bool()> stops = {};
  // Called between steps: may plan again. A new plan that does not fit ends the run: `save`, called before, writes a
  // checkpoint where there is a folder for them.
  std::function<void(const std::function<void()>& save)> between_steps = {};
};

enum class EndOfLoop : uint8_t { done, stopped, no_better };

struct LoopResult {
  EndOfLoop end = EndOfLoop::done;
  int64_t steps = 0;  // in all
  int64_t steps_here = 0;
  float last_loss = 0;                   // where it is not finite, no checkpoint is written
  std::optional<Metrics> metrics = {};   // of the last evaluation
  std::optional<double> best_loss = {};  // of all evaluations
  std::string checkpoint;                // the last whole one; empty: none
  int64_t failed_checkpoints = 0;
  std::string log_error;  // why lines of the log are missing; empty: none are
};

class TrainLog;

class Loop {
 public:
  // Without batches: on synthetic data, the same in every step, and for `steps` alone. ArgumentError for options that
  // make no sense.
  Loop(FittedTraining& training, Budget budget, std::shared_ptr<Batches> batches, LoopOptions options);
  Loop(Training& training, std::shared_ptr<Batches> batches, LoopOptions options);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Until the end. What a step throws comes out, with the checkpoints as they are. DoesNotFit where a checkpoint's
  // state does not.
  LoopResult run();

  // What it takes of a budget beside the step: staging memory and ops of the evaluation.
  static int64_t reserved_bytes(const ModelForms& model, const LoopOptions& options, int64_t budget_bytes);

 private:
  void make_folder();
  std::optional<std::string> newest() const;
  void resume();
  bool is_over() const;
  Delivered take_batch();
  Delivered next_batch();
  float run_step(const Delivered& delivered);
  void step();
  void tell_not_finite(const LoopOptions::Step& record, const Batch* batch);
  void count(double loss);
  void evaluate();
  void save();
  void save_now();
  void refuse_to_save();
  void tell(const CheckpointFolder::Outcome& outcome);
  void tell_outcomes();
  std::optional<int64_t> steps_in_all() const;
  int64_t epoch() const { return batches_ ? batches_->position().epoch : 0; }

  FittedTraining& training_;
  Budget budget_;
  std::shared_ptr<Batches> batches_;
  LoopOptions options_;
  std::unique_ptr<CheckpointFolder> folder_;
  std::unique_ptr<TrainLog> log_;
  LoopResult result_;
  DataPosition batch_position_ = {};  // of the batch that was taken last
  int64_t evaluations_since_best_ = 0;
  int64_t evaluated_at_ = -1;
  int64_t counted_at_ = -1;  // step of the last evaluation that the best one and patience know of
  int64_t saved_at_ = -1;
  bool told_not_finite_ = false;
};

}  // namespace plimsoll::train

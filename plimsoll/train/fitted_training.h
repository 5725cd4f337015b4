// A model, a plan of its step that fits a budget, and the trainer that runs it, whichever form the plan chose: what
// Training and the command line stand on. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "plimsoll/train/checkpoint.h"
#include "plimsoll/train/fit_model.h"
#include "plimsoll/train/micro_batch_trainer.h"

namespace plimsoll::train {

class FittedTraining {
 public:
  // `model` outlives it. `reserved_bytes` of the budget are for others: a pipeline's buffers, a checkpoint's staging.
  FittedTraining(const ModelForms& model, std::string spill_dir, const TrainerOptions& options,
                 int64_t reserved_bytes = 0);

  // Plans for the budget; the first time, parameters are started. Later what is kept goes on as it is. Why it does not
  // fit, where it does not: there is then nothing to run.
  std::optional<NoFit> fit(const Budget& budget);

  // Throws StepGivenUp where that was asked for.
  float step(const Batch& batch);
  float step();  // on the batch of the options, or synthetic data
  // After a step whose loss is not finite: where that comes from, among this rank's samples. Without a batch: of the
  // options' or synthetic data.
  std::optional<NotFinite> find_not_finite(const Batch* batch);
  int64_t steps() const;
  void set_rate(double rate);

  // All that is kept; good until the next fit. With several ranks, of what is spread over them each has its shard.
  std::vector<KeptTensor> kept();
  // The state of the run: model, optimizer, step, seed and rate. The rest is the caller's.
  RunState state() const;
  // Goes on from there. Plans again where the optimizer's state is held in another form. ArgumentError with the first
  // difference for a checkpoint of something else; why it does not fit in that form.
  std::optional<NoFit> load(const Checkpoint& checkpoint, const Budget& budget);

  // Called before each micro-batch of a step, where there are any, with the number of those that are done.
  void set_on_micro_batch(std::function<void(int64_t)> f);
  // Asked between micro-batches of a step: whether to give it up.
  void set_gives_up(std::function<bool()> f);

  // From the next fit on.
  void set_reserved_bytes(int64_t bytes) { reserved_bytes_ = bytes; }
  int64_t reserved_bytes() const { return reserved_bytes_; }

  const ModelForms& model() const { return model_; }
  const RankPart& part() const { return options_.part; }
  bool is_fitted() const { return fit_.session != nullptr; }
  Fit& fitted() { return fit_; }
  const Fit& fitted() const { return fit_; }

 private:
  std::optional<NoFit> take(std::variant<Fit, NoFit> fitted);
  void make_trainer();
  template <class F>
  auto visit(const F& f);

  const ModelForms& model_;
  std::string spill_dir_;
  TrainerOptions options_;
  int64_t reserved_bytes_;
  Fit fit_;
  std::variant<std::monostate, Trainer, MicroBatchTrainer> trainer_;
  std::function<void(int64_t)> on_micro_batch_;
  std::function<bool()> gives_up_;
};

}  // namespace plimsoll::train

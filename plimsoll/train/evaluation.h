// How well a model does on data that it is not trained on: forward alone, as in inference, with the parameters where
// training keeps them and in the memory that its step leaves free. Takes as many samples at once as fit there.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plimsoll/train/batches.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::train {

struct Metrics {
  double loss = 0;                        // the mean over all that count
  std::optional<double> accuracy = {};    // share of targets whose class has the largest logit; of classes alone
  std::optional<double> perplexity = {};  // e to the loss; of tokens alone
  int64_t samples = 0;
};

class Evaluation {
 public:
  // For one plan: the session must outlive it. Computes in f32. UnsupportedError for a loss that is neither the mean
  // cross entropy of classes nor the mean square error; ArgumentError when not even one sample fits in the arena.
  Evaluation(const ModelForms& model, run::Session& session);
  ~Evaluation();

  // Over one epoch, from its start. ArgumentError when there is no sample in it.
  Metrics run(Batches& data);

  int64_t samples_at_once() const { return samples_; }
  // Ops that are bound for it, in a session of this model or before there is one.
  static int64_t steps_of(const ModelForms& model);

 private:
  struct Sums;
  void run_batch(const Batch& batch, int64_t first, int64_t count, Sums& sums);
  void add_classes(std::span<const float> logits, const Batch& batch, int64_t first, int64_t count, Sums& sums) const;
  void add_squares(std::span<const float> results, const Batch& batch, int64_t first, int64_t count, Sums& sums) const;

  program::Program forward_;  // its batch is not bound
  program::Program target_;   // an input alone, likewise
  bool is_classes_ = true;
  bool is_tokens_ = false;
  int axis_ = -1;
  int64_t ignored_ = -100;
  int64_t samples_ = 0;
  std::unique_ptr<run::Executor> executor_;
};

}  // namespace plimsoll::train

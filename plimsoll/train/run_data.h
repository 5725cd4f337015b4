// The data of a run: what it trains on, what it is evaluated on, and what both take of its budget.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "plimsoll/train/model_forms.h"
#include "plimsoll/train/pipeline_batches.h"
#include "plimsoll/train/rank_part.h"

namespace plimsoll::train {

struct DataOptions {
  std::string path = {};             // empty: synthetic data
  std::string evaluation_path = {};  // empty: no evaluation
  bool shuffle = true;
  bool skip_corrupt = false;  // samples that cannot be read are skipped and counted; else they are errors
  int workers = 0;            // threads that read; 0: as many as the steps need
  int prefetch = 0;           // batches ready ahead; 0: as many as the steps need
  int64_t batch = 0;          // samples of a step of all ranks; 0: the model's
  data::BatchPart part = {};  // of several ranks, what this one reads of each batch
};

struct RunData {
  std::shared_ptr<PipelineBatches> batches = {};     // nothing: synthetic data
  std::shared_ptr<PipelineBatches> evaluation = {};  // nothing: none
  int64_t reserved_bytes = 0;                        // of the budget, for buffers and workers: see limit_data
};

// Batches of the model's sizes. `seed` is that of the order. ArgumentError for data with fewer samples than a step
// takes.
RunData open_data(const DataOptions& options, const ModelForms& model, uint64_t seed);

// Buffers that suit the budget; 0: the least there can be.
void limit_data(RunData& data, const DataOptions& options, int64_t budget_bytes);

// Samples of the training data that could not be read, on all ranks, each counted once. Called by every rank.
struct Skipped {
  int64_t samples = 0;
  std::vector<std::string> messages = {};  // of the first ones
};
Skipped skipped_of(const RunData& data, const RankPart& part);

}  // namespace plimsoll::train

// The data of a run: what it trains on, what it is evaluated on, and what both take of its budget.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/train/model_forms.h"
#include "plimsoll/train/pipeline_batches.h"
#include "plimsoll/train/rank_part.h"

namespace plimsoll::train {

struct DataOptions {
  std::string path = {};             // empty: synthetic data
  std::string evaluation_path = {};  // empty: no evaluation
  bool shuffle = true;
  int64_t shuffle_buffer = 0;  // as in data::PipelineOptions, and the two below
  bool fill_last = false;      // else the last samples of an epoch that make no whole batch are left out
  data::Augment augment = {};
  bool unordered = false;         // batches as they are ready
  std::vector<float> mean = {};   // of pixels, by channel or one; as in data::OpenOptions
  std::vector<float> std = {};    //
  int64_t take = 0;               // so many samples alone; 0: all
  int64_t cache_bytes = 0;        // of memory for samples that were read, out of the budget
  std::string cache_folder = {};  // for a file of all of them; empty: none
  bool skip_corrupt = false;      // samples that cannot be read are skipped and counted; else they are errors
  int workers = 0;                // threads that read; 0: as many as the steps need
  int prefetch = 0;               // batches ready ahead; 0: as many as the steps need
  int64_t batch = 0;              // samples of a step of all ranks; 0: the model's
  data::BatchPart part = {};      // of several ranks, what this one reads of each batch
};

struct RunData {
  std::shared_ptr<PipelineBatches> batches = {};     // nothing: synthetic data
  std::shared_ptr<PipelineBatches> evaluation = {};  // nothing: none
  int64_t reserved_bytes = 0;                        // of the budget, for buffers, a cache and workers: see limit_data
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

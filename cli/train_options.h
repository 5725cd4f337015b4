// `plimsoll train`: its options, and the run within a budget.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/model_options.h"
#include "cli/page_options.h"
#include "cli/train_budget.h"
#include "plimsoll/report/step_page.h"
#include "plimsoll/train/loop.h"
#include "plimsoll/train/pipeline_batches.h"

namespace plimsoll::cli {

inline constexpr int64_t kUsualSteps = 10;

struct TrainOptions {
  ModelOptions step;
  BudgetOptions budget;
  PageOptions page;
  std::optional<int64_t> steps;  // nothing: by epochs, or 10
  std::optional<int64_t> epochs;
  double rate = 1e-3;
  uint64_t seed = 1;
  bool no_measure = false;
  std::string save;  // a file of weights; empty: none
  bool no_micro_batches = false;
  // Data; empty: synthetic.
  std::string data;
  std::string eval_data;
  bool no_shuffle = false;
  bool skip_corrupt = false;
  int workers = 0;
  int prefetch = 0;
  // The loop.
  std::string schedule = "constant";
  int64_t warmup = 0;
  int64_t drop_every = 0;
  double weight_decay = 0;
  double clip = 0;  // 0: none
  int64_t accumulate = 1;
  double dropout = -1;  // of every dropout; -1: as the model has it
  int64_t evaluate_every = 0;
  int64_t patience = 0;
  train::CheckpointOptions checkpoint;
  std::string log;

  // Whether it asks for more than steps of synthetic data in the memory that they take.
  bool needs_loop() const;
};

struct StepRecord {
  float loss;
  double seconds;
};
double median_seconds(const std::vector<StepRecord>& records);
std::string time_left(const std::vector<StepRecord>& records, int64_t left);

void add_loop_options(const Command& verb, TrainOptions& options);
void save_weights(const TrainOptions& options, run::Executor& executor);
nlohmann::ordered_json head_json(const TrainOptions& options, const program::Bindings& sizes, int threads);
void print_train_json(nlohmann::ordered_json json, const std::vector<StepRecord>& records, int64_t peak_bytes);
void print_head(const TrainOptions& options, int threads, const std::vector<StepRecord>& records);
void time_ops(const TrainOptions& options, run::Session& session);
void write_train_files(const TrainOptions& options, report::StepPageInput input, report::TrainedRun run,
                       const std::vector<StepRecord>& records);

struct TrainData {
  std::shared_ptr<train::PipelineBatches> batches = {};  // nothing: synthetic data
  std::shared_ptr<train::PipelineBatches> evaluation = {};
  int64_t reserved_bytes = 0;  // of the budget
};
TrainData open_data(const TrainOptions& options, const train::ModelForms& model);
// Buffers that suit the budget; 0: the least there can be.
void limit_data(TrainData& data, const TrainOptions& options, int64_t budget_bytes);
void tell_skipped(const TrainData& data);

int train_within(const TrainOptions& options);

}  // namespace plimsoll::cli

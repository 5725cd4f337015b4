// `plimsoll train`: its options, what it prints of its steps, and the run within a budget.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/budget_options.h"
#include "cli/model_options.h"
#include "cli/page_options.h"
#include "plimsoll/report/profile.h"
#include "plimsoll/report/step_page.h"
#include "plimsoll/train/loop.h"
#include "plimsoll/train/run_data.h"

namespace plimsoll::cli {

inline constexpr int64_t kUsualSteps = 10;
struct TrainOptions {
  ModelOptions step;
  BudgetOptions budget;
  PageOptions page;
  std::optional<int64_t> steps;  // nothing: by epochs, or 10
  std::optional<int64_t> epochs;
  train::TrainerOptions trainer;
  train::DataOptions data;
  train::LoopOptions loop;  // but for steps, epochs and the kind and rate of its schedule
  std::string schedule = "constant";
  double weight_decay = 0;
  double clip = 0;  // 0: none
  int64_t accumulate = 1;
  double dropout = -1;  // of every dropout; -1: as the model has it
  std::string save;     // a file of weights; empty: none
  std::string profile;  // a file; empty: none
  std::string shard = "none";
  std::string bucket = train::kUsualBucketText;

  // Whether it asks for more than steps of synthetic data in the memory that they take.
  bool needs_loop() const;
};

using TrainedSteps = std::vector<report::TrainedStep>;
void add_loop_options(const Command& verb, TrainOptions& options);
void add_data_options(const Command& verb, TrainOptions& options);
void save_weights(const TrainOptions& options, run::Executor& executor);
nlohmann::ordered_json head_json(const TrainOptions& options, const program::Bindings& sizes, int threads);
void print_train_json(nlohmann::ordered_json json, const TrainedSteps& steps, int64_t peak_bytes);
void print_head(const TrainOptions& options, int threads, const TrainedSteps& steps);
void time_ops(const TrainOptions& options, run::Session& session);
void write_profile(const TrainOptions& options, const report::Profile& profile);
void write_train_files(const TrainOptions& options, report::StepPageInput input, report::TrainedRun run);
int train_within(const TrainOptions& options);

}  // namespace plimsoll::cli

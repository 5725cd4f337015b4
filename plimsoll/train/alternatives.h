// What would fit where a step does not: each is planned, so its bytes and its time are as good as a plan's.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/plan/largest_batch.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::train {

struct Alternative {
  struct Setting {
    std::string option;  // of the command line, and of TrainingOptions: "batch"
    std::string value;   // "48"
  };
  std::vector<Setting> settings;  // several: only together do they fit
  std::string note = {};
  int64_t arena_bytes = 0;
  int64_t steps = 0;  // of the plan
  double seconds_a_sample = 0;

  // As arguments of the command line. Recomputation is only ever left out by an option.
  std::string how() const;
};

// The whole batch at once, of so many samples, with its state in 8 bits where that is allowed.
plan::StepOfBatch step_of_batch(const StepRequest& request);

// The most samples that a step of the model may have.
int64_t most_samples(const models::ModelInfo& model);

// For a request that `search` refused: each change of the settings alone, and where none fits, as many of them together
// as it takes. The fastest first. `why_whole`: why the batch cannot be divided.
std::vector<Alternative> find_alternatives(const StepRequest& request, const plan::PlanOptions& search,
                                           const std::string& why_whole);

}  // namespace plimsoll::train

// Pages of steps: what `estimate`, `plan` and `train` found, with what would be otherwise at half the batch, in bf16,
// with recomputation or without the plan. Each of these is estimated or planned when the page is made; what that takes
// too long for is left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/report/step_history.h"
#include "plimsoll/report/trained_steps.h"
#include "plimsoll/train/alternatives.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::report {

struct StepPageInput {
  std::string title;                     // "resnet50, batch 32, f32, training with adam"
  train::StepRequest request;            // which step
  bool with_kernels = true;              // false: tensors alone, without scratch and times
  std::optional<PageFigure> limit = {};  // what it has to fit in
  double time_limit_s = 10;              // for everything that would be otherwise
};

// A step as it is written.
Page estimate_page(const StepPageInput& input, const StepHistory& history);

// A step that fits.
Page plan_page(const StepPageInput& input, const plan::StepPlan& step);

// A step that does not.
Page refusal_page(const StepPageInput& input, const plan::Refusal& refusal,
                  const std::vector<train::Alternative>& ways);

// A run, with the plan it had and the times that its ops took.
struct TrainedRun {
  StepHistory history;
  const plan::StepPlan* plan = nullptr;  // nothing: the step as it is written
  std::vector<TrainedStep> steps = {};
  int64_t predicted_peak_bytes = 0;
  int64_t process_peak_bytes = 0;
  int64_t overhead_bytes = 0;  // beside the arena
  int64_t budget_bytes = 0;    // of the process; 0: none
};
Page train_page(const StepPageInput& input, const TrainedRun& run);

}  // namespace plimsoll::report

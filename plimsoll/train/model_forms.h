// A step of a model in all the forms that a plan may give it (plan/micro_batches.h), with what is known of its costs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models/step.h"
#include "plimsoll/plan/plan_json.h"
#include "plimsoll/run/executor.h"
#include "plimsoll/train/known_costs.h"
#include "plimsoll/train/link.h"

namespace plimsoll::train {

// Measures that change the numbers, by the user's leave.
inline constexpr std::string_view kBatchNormMicroBatches = "batch-norm-micro-batches";
inline constexpr std::string_view kEightBitState = "8-bit-state";

struct Allowed {
  bool batch_norm_micro_batches = false;
  bool eight_bit_state = false;
};

// ArgumentError for a measure that there is not.
Allowed parse_allowed(const std::vector<std::string>& allow);

// Which step of which model, and how it may be made to fit.
struct StepRequest {
  models::ModelInfo model;
  models::StepOptions step = {};
  std::vector<std::string> allow = {};
  bool micro_batches = true;
  bool recompute = true;
  bool measure = false;  // time kernels, and remember the times
  double measure_s = 3;  // at most
  std::string device = "cpu";
  int threads = 0;
  Listener listener = {};
  std::optional<Link> link = {};  // to other ranks, as far as it is known
};

// Where optimizer state lies, and how.
enum class StateForm : uint8_t {
  any,        // in memory: in f32, or in 8 bits where that is allowed and f32 does not fit
  f32,        // in memory
  quantized,  // in memory, in 8 bits
  in_file,    // in the spill file, which must be set, in f32
};

// What its plan::StepForms make refers to it: it stays where it is, and outlives them.
class ModelForms {
 public:
  explicit ModelForms(StepRequest request);
  ModelForms(const ModelForms&) = delete;
  ModelForms& operator=(const ModelForms&) = delete;

  plan::StepForms forms(StateForm state = StateForm::any) const;
  // With all that is allowed, needed or not: where what counts is how little will do.
  plan::StepForms least_forms() const;
  bool may_quantize() const { return quantized_.has_value(); }

  // Gives parameters and state their first values.
  void start(run::Executor& executor, uint64_t seed) const;

  // For estimates of what is not measured; runs kernels where this machine was not calibrated before.
  void calibrate() const { costs_->calibrate(request_.device, request_.threads); }

  plan::SpillOptions spill_in(const std::string& folder) const { return costs_->spill_in(folder); }

  const StepRequest& request() const { return request_; }
  const plan::Setting& setting() const { return setting_; }
  const program::Bindings& sizes() const { return setting_.sizes; }
  // Of parameters and state, as a checkpoint has them in f32.
  int64_t kept_bytes() const;
  int64_t batch() const { return setting_.sizes.at("batch"); }
  // The step in micro-batches that a plan takes.
  const program::SplitStep& split_of(const plan::StepPlan& plan) const;
  // Why the batch cannot be divided; empty when it can, or may not.
  const std::string& why_whole() const { return why_whole_; }

 private:
  // The step with its state in one form.
  struct Built {
    models::StepOptions asked;
    std::optional<models::MicroBatchStep> micro_batches = {};
  };

  void build_micro_batches();
  // The state of parameters of at least `spilled` bytes lies in the spill file.
  plan::StepForms forms_of(const Built& built, int64_t spilled) const;
  kernels::Lowered prepare(program::Program program) const;

  StepRequest request_;
  Built f32_;
  std::optional<Built> quantized_;  // where it is allowed
  std::shared_ptr<KnownCosts> costs_;
  plan::Setting setting_;
  program::ChunkPlaces places_;
  std::string why_whole_;
};

}  // namespace plimsoll::train

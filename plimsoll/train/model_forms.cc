#include "plimsoll/train/model_forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/program/updates.h"
#include "plimsoll/train/initialize.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kLeastSpilled = kMiB;  // parameters below are not worth a trip to the disk

plan::Setting setting_of(const StepRequest& request) {
  return {request.model.name,
          request.step.training ? "train" : "infer",
          std::string(name(request.step.train.optimizer)),
          std::string(name(request.step.precision)),
          models::bindings(request.model, request.step.sizes),
          request.allow};
}

// With what the step waits for other ranks, in place of what collectives would take of the processor.
plan::Costs over_link(plan::Costs costs, const program::Program& program, const Link& link) {
  const std::vector<double> waits = waits_of(program, costs.seconds, link);
  for (size_t i = 0; i < waits.size(); ++i) {
    if (!program::is_of_link(*program.ops[i].def)) continue;
    costs.estimated_s += waits[i] - costs.seconds[i];
    costs.seconds[i] = waits[i];
  }
  costs.estimated_s = std::max(0.0, costs.estimated_s);
  return costs;
}

}  // namespace

Allowed parse_allowed(const std::vector<std::string>& allow) {
  Allowed allowed;
  for (const std::string& measure : allow) {
    if (measure == kBatchNormMicroBatches) {
      allowed.batch_norm_micro_batches = true;
    } else if (measure == kEightBitState) {
      allowed.eight_bit_state = true;
    } else {
      throw ArgumentError(
          fmt::format("--allow {}: expected {} or {}", quote(measure), kBatchNormMicroBatches, kEightBitState));
    }
  }
  return allowed;
}

ModelForms::ModelForms(StepRequest request)
    : request_(std::move(request)),
      f32_{request_.step},
      costs_(std::make_shared<KnownCosts>(request_.listener)),
      setting_(setting_of(request_)) {
  const Allowed allowed = parse_allowed(request_.allow);
  f32_.asked.through_batch_norm = allowed.batch_norm_micro_batches;
  const bool has_state = f32_.asked.training && program::has_8bit_state(f32_.asked.train.optimizer);
  if (allowed.eight_bit_state && has_state) quantized_ = f32_;
  if (quantized_) quantized_->asked.train.eight_bit_state = true;
  if (f32_.asked.training && request_.micro_batches) build_micro_batches();
}

plan::StepForms ModelForms::forms(StateForm state) const {
  plan::StepForms forms = forms_of(f32_, state == StateForm::in_file ? kLeastSpilled : INT64_MAX);
  if (!quantized_ || state == StateForm::f32 || state == StateForm::in_file) return forms;
  const plan::ChangedForms changed{forms_of(*quantized_, INT64_MAX), std::string(kEightBitState), "optimizer state",
                                   state == StateForm::quantized};
  forms.otherwise = std::make_shared<const plan::ChangedForms>(changed);
  return forms;
}

plan::StepForms ModelForms::least_forms() const { return forms_of(quantized_ ? *quantized_ : f32_, INT64_MAX); }

void ModelForms::start(run::Executor& executor, uint64_t seed) const {
  if (f32_.micro_batches)
    return start_values(executor, f32_.micro_batches->inits, f32_.micro_batches->state_inits, seed);
  const models::Step step = models::build_whole_step(request_.model, f32_.asked);
  start_values(executor, step.inits, step.state_inits, seed, step.quantized);
}

int64_t ModelForms::kept_bytes() const {
  const program::Program step = models::build_step(request_.model, f32_.asked);
  int64_t bytes = 0;
  for (const auto* list : {&step.parameters, &step.state}) {
    for (const program::Value value : *list) bytes += step[value].type.bytes().constant();
  }
  return bytes;
}

const program::SplitStep& ModelForms::split_of(const plan::StepPlan& plan) const {
  return plan.changes.empty() ? f32_.micro_batches->split : quantized_->micro_batches->split;
}

void ModelForms::build_micro_batches() {
  if (f32_.asked.train.ranks == 1) places_ = models::find_chunk_places(request_.model, f32_.asked);
  try {
    f32_.micro_batches = models::build_micro_batch_step(request_.model, f32_.asked);
    if (quantized_) quantized_->micro_batches = models::build_micro_batch_step(request_.model, quantized_->asked);
  } catch (const UnsupportedError& error) {
    why_whole_ = error.what();
  }
}

plan::StepForms ModelForms::forms_of(const Built& built, int64_t spilled) const {
  const models::ModelInfo& model = request_.model;
  plan::StepForms forms{batch(), [this, &model, &built, spilled] {
                          return prepare(program::spill_state(models::build_step(model, built.asked), spilled));
                        }};
  forms.costs = [costs = costs_, link = request_.link](const kernels::Lowered& lowered) {
    return link ? over_link(costs->of(lowered), lowered.program, *link) : costs->of(lowered);
  };
  forms.rest = [costs = costs_] { costs->rest(); };
  if (request_.measure) {
    forms.learn = [costs = costs_, limit_s = request_.measure_s](const plan::StepPlan& step) {
      return costs->learn(step, limit_s);
    };
  }
  if (built.asked.training) {
    forms.places = places_;
    forms.formed = [this, &model, &built, spilled](const program::StepForm& form) {
      models::StepOptions asked = built.asked;
      asked.form = form;
      return prepare(program::spill_state(models::build_step(model, asked), spilled));
    };
  }
  if (!built.micro_batches) return forms;
  const auto split = std::make_shared<program::SplitStep>(program::spill_state(built.micro_batches->split, spilled));
  forms.micro_batch = [this, split](int64_t size) {
    return prepare(program::bind(split->micro_batch, {{"batch", size}}));
  };
  forms.update = [this, split] { return prepare(split->update); };
  return forms;
}

kernels::Lowered ModelForms::prepare(program::Program program) const {
  return kernels::prepare(std::move(program), {.device = request_.device, .threads = request_.threads});
}

}  // namespace plimsoll::train

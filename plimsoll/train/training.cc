#include "plimsoll/train/training.h"

#include <fmt/format.h>

#include <ostream>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/train/fitted_training.h"
#include "plimsoll/train/kept_values.h"
#include "plimsoll/train/overhead.h"
#include "plimsoll/train/refuse.h"

namespace plimsoll::train {
namespace {

Optimizer make(program::Optimizer which, double lr) {
  Optimizer optimizer{.lr = lr};
  optimizer.options.optimizer = which;
  return optimizer;
}

StepRequest request_of(models::ModelInfo model, const TrainingOptions& options) {
  kernels::kernels_of(options.device);  // says so where there is no such device
  StepRequest request{.model = std::move(model), .allow = options.allow, .micro_batches = options.micro_batches};
  request.recompute = options.recompute;
  request.step.train = options.optimizer.options;
  request.step.precision = options.precision;
  request.step.sizes = options.sizes;
  if (options.batch != 0) request.step.sizes["batch"] = options.batch;
  request.measure = options.measure;
  request.device = options.device;
  request.threads = options.threads;
  request.listener.on_note = options.on_note;
  return request;
}

TrainingPlan describe(const Fit& fit, const Budget& budget) {
  TrainingPlan plan{.budget_bytes = budget.bytes,
                    .predicted_peak_bytes = fit.predicted_peak_bytes,
                    .arena_bytes = fit.plan.arena_bytes,
                    .overhead_bytes = fit.overhead_bytes,
                    .unplanned_bytes = fit.plan.unplanned_bytes,
                    .predicted_step_s = fit.plan.predicted_s,
                    .micro_batches = fit.plan.sizes};
  for (const plan::Measure& measure : fit.plan.measures()) {
    plan.measures.push_back({measure.kind, measure.what, measure.saved_bytes, measure.cost_s});
  }
  return plan;
}

}  // namespace

void refuse(const ModelForms& model, const std::string& spill_dir, const Budget& budget, const NoFit& no_fit) {
  const std::vector<Alternative> found = alternatives_to(model, spill_dir, budget, no_fit);
  std::vector<DoesNotFit::Way> ways;
  for (const Alternative& way : found) {
    ways.push_back(
        {{}, process_bytes(way.arena_bytes, no_fit.overhead_bytes + way.steps * kStepBytes), way.seconds_a_sample});
    for (const auto& [option, value] : way.settings) ways.back().settings.push_back({option, value});
  }
  throw DoesNotFit(refusal_text(model, budget, no_fit, found), no_fit.smallest_budget_bytes(), std::move(ways));
}

Optimizer sgd(double lr) { return make(program::Optimizer::sgd, lr); }

Optimizer momentum(double lr, double momentum) {
  Optimizer optimizer = make(program::Optimizer::momentum, lr);
  optimizer.options.momentum = momentum;
  return optimizer;
}

Optimizer adam(double lr) { return make(program::Optimizer::adam, lr); }

Optimizer adamw(double lr, double weight_decay) {
  Optimizer optimizer = make(program::Optimizer::adamw, lr);
  optimizer.options.weight_decay = weight_decay;
  return optimizer;
}

Optimizer lion(double lr, double weight_decay) {
  Optimizer optimizer = make(program::Optimizer::lion, lr);
  optimizer.options.beta2 = 0.99;
  optimizer.options.weight_decay = weight_decay;
  return optimizer;
}

Optimizer adafactor(double lr) { return make(program::Optimizer::adafactor, lr); }

struct Training::Impl {
  Impl(models::ModelInfo info, const TrainingOptions& asked)
      : options(asked),
        budget(parse_budget(asked.budget, "budget")),
        model(request_of(std::move(info), asked)),
        training(model, asked.spill_dir, {.rate = asked.optimizer.lr, .seed = asked.seed}) {
    fit();
  }

  void fit() { take(training.fit(budget)); }

  void take(const std::optional<NoFit>& no_fit) {
    if (no_fit) refuse(model, options.spill_dir, budget, *no_fit);
    plan = describe(training.fitted(), budget);
  }

  run::Executor& executor() { return training.fitted().session->executor(); }

  TrainingOptions options;
  Budget budget;
  ModelForms model;
  FittedTraining training;
  TrainingPlan plan;
};

Training::Training(models::ModelInfo model, const TrainingOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}

Training::Training(models::Model model, const TrainingOptions& options) {
  TrainingOptions asked = options;
  asked.precision = model.options.dtype;
  impl_ = std::make_unique<Impl>(models::own_model("the model", std::move(model), {}), asked);
}

Training::Training(Training&&) noexcept = default;
Training& Training::operator=(Training&&) noexcept = default;
Training::~Training() = default;

float Training::step(const Batch& batch) { return impl_->training.step(batch); }

float Training::step() { return impl_->training.step(); }

int64_t Training::steps() const { return impl_->training.steps(); }

void Training::set_learning_rate(double lr) {
  impl_->options.optimizer.lr = lr;
  impl_->training.set_rate(lr);
}

void Training::set_budget(std::string_view budget) {
  impl_->budget = parse_budget(budget, "budget");
  impl_->fit();
}

void Training::save(const std::string& path) const {
  save_checkpoint(path, impl_->training.kept(), impl_->training.state());
}

void Training::load(const std::string& path) { impl_->take(impl_->training.load(Checkpoint(path), impl_->budget)); }

FittedTraining& Training::fitted() { return impl_->training; }

const TrainingPlan& Training::plan() const { return impl_->plan; }

std::vector<std::string> Training::names() const { return kept_names(impl_->executor()); }

std::vector<float> Training::read(std::string_view name) const { return read_kept(impl_->executor(), name); }

void Training::write(std::string_view name, std::span<const float> values) {
  write_kept(impl_->executor(), name, values);
}

std::ostream& operator<<(std::ostream& out, const TrainingPlan& plan) {
  const size_t count = plan.micro_batches.size();
  out << fmt::format("peak {} of {} ({} arena, {} overhead), {} a step\n", format_bytes(plan.predicted_peak_bytes),
                     format_bytes(plan.budget_bytes), format_bytes(plan.arena_bytes), format_bytes(plan.overhead_bytes),
                     format_seconds(plan.predicted_step_s));
  if (count > 1) out << fmt::format("  gradient accumulation: {} micro-batches of {}\n", count, plan.micro_batches[0]);
  std::vector<plan::Measure> measures;
  for (const TrainingPlan::Measure& measure : plan.measures) {
    measures.push_back({measure.kind, measure.what, 1, measure.saved_bytes, measure.cost_s});
  }
  for (const plan::Measure& measure : plan::by_op(measures)) {
    out << fmt::format("  {} {}: -{}, +{}\n", measure.kind, measure.what, format_bytes(measure.saved_bytes),
                       format_seconds(measure.cost_s));
  }
  return out;
}

}  // namespace plimsoll::train

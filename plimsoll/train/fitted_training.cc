#include "plimsoll/train/fitted_training.h"

#include "plimsoll/train/sharded_state.h"

namespace plimsoll::train {
namespace {

// What is left of the budget for the step.
Budget without(const Budget& budget, int64_t reserved_bytes) {
  return {std::max<int64_t>(0, budget.bytes - reserved_bytes), budget.source};
}

}  // namespace

FittedTraining::FittedTraining(const ModelForms& model, std::string spill_dir, const TrainerOptions& options,
                               int64_t reserved_bytes)
    : model_(model), spill_dir_(std::move(spill_dir)), options_(options), reserved_bytes_(reserved_bytes) {}

std::optional<NoFit> FittedTraining::fit(const Budget& budget) {
  const Budget left = without(budget, reserved_bytes_);
  if (is_fitted()) return take(refit_model(model_, spill_dir_, left, fit_));
  auto no_fit = take(fit_model(model_, spill_dir_, left, StateForm::any, peers_of(model_, options_.part)));
  if (!no_fit) require_same_collectives(options_.part, *fit_.session);
  if (!no_fit) model_.start(fit_.session->executor(), options_.seed);
  return no_fit;
}

std::optional<NoFit> FittedTraining::take(std::variant<Fit, NoFit> fitted) {
  trainer_.emplace<std::monostate>();
  if (auto* no_fit = std::get_if<NoFit>(&fitted)) {
    no_fit->overhead_bytes += reserved_bytes_;
    return std::move(*no_fit);
  }
  fit_ = std::move(std::get<Fit>(fitted));
  fit_.overhead_bytes += reserved_bytes_;
  fit_.predicted_peak_bytes += reserved_bytes_;
  make_trainer();
  return std::nullopt;
}

void FittedTraining::make_trainer() {
  if (fit_.plan.in_micro_batches()) {
    auto& trainer = trainer_.emplace<MicroBatchTrainer>(
        micro_batches_of(*fit_.session, fit_.plan.sizes, model_.split_of(fit_.plan)), options_);
    trainer.on_micro_batch = on_micro_batch_;
    trainer.gives_up = gives_up_;
  } else {
    trainer_.emplace<Trainer>(fit_.session->executor(), options_);
  }
}

// Calls f(trainer) with the one there is.
template <class F>
auto FittedTraining::visit(const F& f) {
  if (auto* whole = std::get_if<Trainer>(&trainer_)) return f(*whole);
  return f(std::get<MicroBatchTrainer>(trainer_));
}

float FittedTraining::step(const Batch& batch) {
  const float loss = visit([&](auto& trainer) { return trainer.step(batch); });
  ++options_.steps_before;
  return loss;
}

float FittedTraining::step() {
  const float loss = visit([](auto& trainer) { return trainer.step(); });
  ++options_.steps_before;
  return loss;
}

std::optional<NotFinite> FittedTraining::find_not_finite(const Batch* batch) {
  return visit([&](auto& trainer) { return batch ? trainer.find_not_finite(*batch) : trainer.find_not_finite(); });
}

int64_t FittedTraining::steps() const { return options_.steps_before; }

void FittedTraining::set_rate(double rate) {
  options_.rate = rate;
  visit([&](auto& trainer) { trainer.set_rate(rate); });
}

std::vector<KeptTensor> FittedTraining::kept() {
  return whole_state(kept_tensors(*fit_.session, model_.request().model), fit_.session->executor().program(),
                     model_.request().step.train.sharding, options_.part);
}

RunState FittedTraining::state() const {
  const plan::Setting& setting = model_.setting();
  return {.model = setting.model,
          .optimizer = setting.optimizer,
          .precision = setting.precision,
          .step = options_.steps_before,
          .seed = options_.seed,
          .rate = options_.rate};
}

std::optional<NoFit> FittedTraining::load(const Checkpoint& checkpoint, const Budget& budget) {
  const bool is_quantized = !fit_.plan.changes.empty();
  if (checkpoint.has_8bit_state() != is_quantized && (is_quantized || model_.may_quantize())) {
    trainer_.emplace<std::monostate>();
    fit_.session.reset();
    const StateForm form = is_quantized ? StateForm::f32 : StateForm::quantized;
    const Budget left = without(budget, reserved_bytes_);
    if (auto no_fit = take(fit_model(model_, spill_dir_, left, form, peers_of(model_, options_.part)))) return no_fit;
    require_same_collectives(options_.part, *fit_.session);
  }
  checkpoint.load(kept());
  options_.seed = checkpoint.state().seed;
  options_.steps_before = checkpoint.state().step;
  make_trainer();
  return std::nullopt;
}

void FittedTraining::set_on_micro_batch(std::function<void(int64_t)> f) {
  on_micro_batch_ = std::move(f);
  if (auto* trainer = std::get_if<MicroBatchTrainer>(&trainer_)) trainer->on_micro_batch = on_micro_batch_;
}

void FittedTraining::set_gives_up(std::function<bool()> f) {
  gives_up_ = std::move(f);
  if (auto* trainer = std::get_if<MicroBatchTrainer>(&trainer_)) trainer->gives_up = gives_up_;
}

}  // namespace plimsoll::train

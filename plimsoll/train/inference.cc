#include "plimsoll/train/inference.h"

#include "plimsoll/memory/limits.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/train/fit_model.h"
#include "plimsoll/train/kept_values.h"
#include "plimsoll/train/refuse.h"

namespace plimsoll::train {
namespace {

StepRequest request_of(models::ModelInfo model, const InferenceOptions& options) {
  kernels::kernels_of(options.device);  // says so where there is no such device
  StepRequest request{.model = std::move(model), .device = options.device, .threads = options.threads};
  request.step.training = false;
  request.step.precision = options.precision;
  request.step.sizes = options.sizes;
  if (options.batch != 0) request.step.sizes["batch"] = options.batch;
  return request;
}

}  // namespace

struct Inference::Impl {
  Impl(models::ModelInfo info, const InferenceOptions& options)
      : budget(parse_budget(options.budget, "budget")), model(request_of(std::move(info), options)) {
    auto fitted = fit_model(model, "", budget);
    if (const auto* no_fit = std::get_if<NoFit>(&fitted)) refuse(model, "", budget, *no_fit);
    fit = std::move(std::get<Fit>(fitted));
    model.start(fit.session->executor(), options.seed);
  }

  Budget budget;
  ModelForms model;
  Fit fit;
};

Inference::Inference(models::ModelInfo model, const InferenceOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}

Inference::Inference(models::Model model, const InferenceOptions& options) {
  InferenceOptions asked = options;
  asked.precision = model.options.dtype;
  impl_ = std::make_unique<Impl>(models::own_model("the model", std::move(model), {}), asked);
}

Inference::Inference(Inference&&) noexcept = default;
Inference& Inference::operator=(Inference&&) noexcept = default;
Inference::~Inference() = default;

std::vector<float> Inference::run(const Batch& batch) {
  run::Executor& executor = impl_->fit.session->executor();
  const program::Program& program = executor.program();
  for (const program::Value input : program.inputs) {
    executor.fill_bytes(input, [&](std::span<std::byte> into) { batch.read(program, input, 0, into); });
  }
  executor.step();
  return run::read_floats(executor, program.outputs.front());
}

int64_t Inference::predicted_peak_bytes() const { return impl_->fit.predicted_peak_bytes; }
int64_t Inference::arena_bytes() const { return impl_->fit.plan.arena_bytes; }

std::vector<std::string> Inference::names() const { return kept_names(impl_->fit.session->executor()); }

void Inference::write(std::string_view name, std::span<const float> values) {
  write_kept(impl_->fit.session->executor(), name, values);
}

}  // namespace plimsoll::train

#include "plimsoll/run/eager/optimizer.h"

namespace plimsoll::eager {
namespace {

Tensor zeros(Context& context, const TensorSpec& spec) {
  return context.zeros(spec, "optimizer", Category::optimizer_state);
}

Tensor scalar(Context& context, double value) {
  Tensor tensor = zeros(context, {DType::f32, {}});
  tensor.write(std::vector{static_cast<float>(value)});
  return tensor;
}

void clear(std::span<Tensor> parameters) {
  for (Tensor& parameter : parameters) parameter.clear_grad();
}

}  // namespace

Adam::Adam(Context& context, std::vector<Tensor> parameters, const AdamOptions& options)
    : context_(context),
      parameters_(std::move(parameters)),
      options_(options),
      steps_(zeros(context, {DType::i64, {}})),
      rate_(scalar(context, options.rate)) {
  for (const Tensor& parameter : parameters_) {
    moments_.push_back({zeros(context, parameter.spec()), zeros(context, parameter.spec())});
  }
}

void Adam::step() {
  const NoGrad no_grad(context_);
  apply("next_step", {steps_});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor gradient = parameters_[i].grad();
    if (!gradient) continue;
    apply("adam", {parameters_[i], gradient, moments_[i].mean, moments_[i].square, steps_, rate_},
          {{"beta1", options_.beta1},
           {"beta2", options_.beta2},
           {"eps", options_.eps},
           {"weight_decay", options_.weight_decay}});
  }
}

void Adam::clear_grads() { clear(parameters_); }

Sgd::Sgd(Context& context, std::vector<Tensor> parameters, double rate)
    : context_(context), parameters_(std::move(parameters)), rate_(scalar(context, rate)) {}

void Sgd::step() {
  const NoGrad no_grad(context_);
  for (const Tensor& parameter : parameters_) {
    if (const Tensor gradient = parameter.grad()) apply("sgd", {parameter, gradient, rate_});
  }
}

void Sgd::clear_grads() { clear(parameters_); }

}  // namespace plimsoll::eager

#include "plimsoll/program/updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/factored.h"
#include "plimsoll/program/ops/state_8bit.h"

namespace plimsoll::program {
namespace {

std::vector<Value> trained_parameters(const Program& program) {
  std::vector<Value> trained;
  for (const Value value : program.parameters) {
    if (is_floating(program[value].type.dtype)) trained.push_back(value);
  }
  return trained;
}

// For each storage the place of the last op that reads or writes it; -1 where none does.
std::vector<int32_t> last_touches(const Program& program) {
  std::vector<int32_t> last(program.values.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (const auto* values : {&program.ops[i].inputs, &program.ops[i].outputs}) {
      for (const Value value : *values) {
        if (value) last[static_cast<size_t>(program[value].storage.index)] = static_cast<int32_t>(i);
      }
    }
  }
  return last;
}

// What every gradient is multiplied with: by what the loss was, back, and down to the norm that is allowed. Nothing: 1.
Value scale_of_gradients(Builder& b, std::span<const Trained> trained, const TrainOptions& options,
                         const LossScale& loss_scale) {
  if (!options.clip_norm && !loss_scale.value) return {};
  std::vector<Value> all;
  for (const Trained& one : trained) all.push_back(one.gradient);
  const Value norm = global_norm(b, all);
  if (!loss_scale.value) return clip_scale(b, norm, *options.clip_norm);
  const Value back = unscale(b, loss_scale.value, norm);
  next_loss_scale(b, loss_scale.state, norm);
  return options.clip_norm ? mul(b, back, clip_scale(b, mul(b, norm, back), *options.clip_norm)) : back;
}

// Emits the updates of one optimizer. `step` and `scale` are nothing where they are not needed.
struct Updater {
  Builder& b;  // NOLINT
  const TrainOptions& options;
  Value rate;
  Value step;
  Value scale;

  void update(const Trained& trained) {
    const Value w = trained.parameter;
    const Value dw = trained.gradient;
    if (options.optimizer == Optimizer::sgd) {
      sgd(b, w, dw, rate, {options.weight_decay, scale});
    } else if (is_quantized(w)) {
      update_quantized(w, dw);
    } else {
      update_plain(w, dw);
    }
  }

  void update_plain(Value w, Value dw) {
    if (options.optimizer == Optimizer::momentum) {
      momentum(b, w, dw, state(w, "velocity"), rate, momentum_options());
    } else if (options.optimizer == Optimizer::lion) {
      lion(b, w, dw, state(w, "mean"), rate, {options.beta1, options.beta2, options.weight_decay, scale});
    } else if (options.optimizer == Optimizer::adafactor) {
      update_factored(w, dw);
    } else {
      const Moments moments{state(w, "mean"), state(w, "square")};
      const auto emit = options.optimizer == Optimizer::adam ? adam : adamw;
      emit(b, w, dw, moments, step, rate, adam_options());
    }
  }

  void update_factored(Value w, Value dw) {
    const FactoredOptions factored{.weight_decay = options.weight_decay, .scale = scale};
    if (b.shape(w).rank() < 2) {
      adafactor_vector(b, w, dw, state(w, "square"), step, rate, factored);
    } else {
      const FactoredSquares squares{state(w, "rows", {b.type(w).dtype, rows_of(b.shape(w))}),
                                    state(w, "columns", {b.type(w).dtype, columns_of(b.shape(w))})};
      adafactor(b, w, dw, squares, step, rate, factored);
    }
  }

  void update_quantized(Value w, Value dw) {
    if (options.optimizer == Optimizer::momentum) {
      momentum_8bit(b, w, dw, quantized(w, "velocity"), step, rate, momentum_options());
    } else {
      const Moments8Bit moments{quantized(w, "mean"), quantized(w, "square")};
      const auto emit = options.optimizer == Optimizer::adam ? adam_8bit : adamw_8bit;
      emit(b, w, dw, moments, step, rate, adam_options());
    }
  }

  bool is_quantized(Value w) const {
    const Dim elements = b.shape(w).elements();
    return options.eight_bit_state && has_8bit_state(options.optimizer) && elements.is_constant() &&
           elements.constant() >= kLeastQuantized;
  }
  MomentumOptions momentum_options() const { return {options.momentum, options.nesterov, options.weight_decay, scale}; }
  AdamOptions adam_options() const { return {options.beta1, options.beta2, options.eps, options.weight_decay, scale}; }

  Value state(Value w, std::string_view what, const Type& type) {
    return b.state(fmt::format("optimizer.{}.{}", b.program()[w].name, what), type);
  }
  Value state(Value w, std::string_view what) { return state(w, what, b.type(w)); }
  State8Bit quantized(Value w, std::string_view what) {
    const Value codes = state(w, what, {DType::u8, b.shape(w)});
    const Type scales{DType::f32, {scales_of(b.shape(w).elements())}};
    return {codes, state(w, fmt::format("{}_scales", what), scales)};
  }
};

bool counts_steps(const TrainOptions& options) {
  if (options.optimizer == Optimizer::momentum) return options.eight_bit_state;
  return options.optimizer != Optimizer::sgd && options.optimizer != Optimizer::lion;
}

}  // namespace

bool has_8bit_state(Optimizer optimizer) {
  return optimizer == Optimizer::momentum || optimizer == Optimizer::adam || optimizer == Optimizer::adamw;
}

std::vector<Trained> find_trained(Builder& b, Value loss, Value seed) {
  const std::vector<Value> parameters = trained_parameters(b.program());
  const Root root{loss, seed};
  const std::vector<Value> found =
      seed ? gradients(b, std::span(&root, 1), parameters) : gradients(b, loss, parameters);
  const std::vector<int32_t> produced_by = producers(b.program());
  const std::vector<int32_t> touched = last_touches(b.program());
  std::vector<Trained> trained;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!found[i]) continue;
    const int32_t made = produced_by[static_cast<size_t>(found[i].index)];
    const int32_t read = touched[static_cast<size_t>(parameters[i].index)];
    trained.push_back({parameters[i], found[i], made, std::max(made, read)});
  }
  if (trained.empty()) {
    throw ArgumentError(
        fmt::format("the loss %{} depends on no parameter: there is nothing to train", b.program()[loss].name));
  }
  std::stable_sort(trained.begin(), trained.end(),
                   [](const Trained& one, const Trained& other) { return one.after < other.after; });
  return trained;
}

LossScale scale_of_loss(Builder& b) {
  const Value state = b.state("optimizer.loss_scale", {DType::i64, {2}});
  return {state, loss_scale(b, state)};
}

void append_updates(Builder& b, std::span<const Trained> trained, const TrainOptions& options,
                    const LossScale& loss_scale) {
  b.set_phase(Phase::update);
  Updater updater{b, options, b.input("optimizer.rate", {DType::f32, {}}), {}, {}};
  if (counts_steps(options)) updater.step = next_step(b, b.state("optimizer.step", {DType::i64, {}}));
  updater.scale = scale_of_gradients(b, trained, options, loss_scale);
  for (const Trained& one : trained) updater.update(one);
  b.set_phase(Phase::forward);
}

void place_after(Program& program, size_t first, std::span<const int32_t> after) {
  std::vector<size_t> order(program.ops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t op) { return op < first ? op : static_cast<size_t>(after[op - first]); };
  std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t other) { return key(one) < key(other); });
  std::vector<Op> ordered;
  ordered.reserve(order.size());
  for (const size_t op : order) ordered.push_back(std::move(program.ops[op]));
  program.ops = std::move(ordered);
}

}  // namespace plimsoll::program

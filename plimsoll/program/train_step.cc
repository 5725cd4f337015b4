#include "plimsoll/program/train_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/optimizer.h"

namespace plimsoll::program {
namespace {

constexpr std::array<std::string_view, 4> kOptimizerNames = {"sgd", "momentum", "adam", "adamw"};

// A parameter, its gradient, and the place of the op after which nothing stands in the way of the update.
struct Ready {
  Value parameter;
  Value gradient;
  int32_t after;
};

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

// In the order in which they can be updated.
std::vector<Ready> find_gradients(Builder& b, Value loss) {
  const std::vector<Value> parameters = trained_parameters(b.program());
  const std::vector<Value> found = gradients(b, loss, parameters);
  const std::vector<int32_t> made_by = producers(b.program());
  const std::vector<int32_t> touched = last_touches(b.program());
  std::vector<Ready> ready;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!found[i]) continue;
    const int32_t made = made_by[static_cast<size_t>(found[i].index)];
    const int32_t read = touched[static_cast<size_t>(parameters[i].index)];
    ready.push_back({parameters[i], found[i], std::max(made, read)});
  }
  std::stable_sort(ready.begin(), ready.end(),
                   [](const Ready& one, const Ready& other) { return one.after < other.after; });
  return ready;
}

Value clipping_scale(Builder& b, const std::vector<Ready>& ready, double max_norm) {
  std::vector<Value> all;
  for (const Ready& one : ready) all.push_back(one.gradient);
  return clip_scale(b, global_norm(b, all), max_norm);
}

// Emits the updates of one optimizer. `step` and `scale` are nothing where they are not needed.
struct Updater {
  Builder& b;  // NOLINT
  const TrainOptions& options;
  Value rate;
  Value step;
  Value scale;

  void update(const Ready& ready) {
    const Value w = ready.parameter;
    const Value dw = ready.gradient;
    switch (options.optimizer) {
      case Optimizer::sgd:
        sgd(b, w, dw, rate, {options.weight_decay, scale});
        break;
      case Optimizer::momentum:
        momentum(b, w, dw, state(w, "velocity"), rate,
                 {options.momentum, options.nesterov, options.weight_decay, scale});
        break;
      case Optimizer::adam:
        adam(b, w, dw, moments(w), step, rate, adam_options());
        break;
      case Optimizer::adamw:
        adamw(b, w, dw, moments(w), step, rate, adam_options());
        break;
    }
  }

  AdamOptions adam_options() const { return {options.beta1, options.beta2, options.eps, options.weight_decay, scale}; }
  Moments moments(Value w) { return {state(w, "mean"), state(w, "square")}; }
  Value state(Value w, std::string_view what) {
    return b.state(fmt::format("optimizer.{}.{}", b.program()[w].name, what), b.type(w));
  }
};

bool counts_steps(Optimizer optimizer) { return optimizer == Optimizer::adam || optimizer == Optimizer::adamw; }

// Appends the updates, in the order of `ready`, with what they need before them.
void append_updates(Builder& b, const std::vector<Ready>& ready, const TrainOptions& options) {
  b.set_phase(Phase::update);
  Updater updater{b, options, b.input("optimizer.rate", {DType::f32, {}}), {}, {}};
  if (counts_steps(options.optimizer)) updater.step = next_step(b, b.state("optimizer.step", {DType::i64, {}}));
  if (options.clip_norm) updater.scale = clipping_scale(b, ready, *options.clip_norm);
  for (const Ready& one : ready) updater.update(one);
  b.set_phase(Phase::forward);
}

// Moves the updates, which stand from `first_update` on, to where their gradients are ready; what stands before the
// first of them goes with it.
void place_early(Program& program, size_t first_update, const std::vector<Ready>& ready) {
  const size_t shared = program.ops.size() - first_update - ready.size();
  std::vector<Op> ordered;
  ordered.reserve(program.ops.size());
  const auto take = [&](size_t op) { ordered.push_back(std::move(program.ops[op])); };
  size_t next = 0;
  for (size_t i = 0; i < first_update; ++i) {
    take(i);
    for (; next < ready.size() && ready[next].after == static_cast<int32_t>(i); ++next) {
      if (next == 0) {
        for (size_t k = 0; k < shared; ++k) take(first_update + k);
      }
      take(first_update + shared + next);
    }
  }
  program.ops = std::move(ordered);
}

}  // namespace

std::string_view name(Optimizer optimizer) { return kOptimizerNames[static_cast<size_t>(optimizer)]; }

std::optional<Optimizer> try_parse_optimizer(std::string_view text) {
  const auto found = std::find(kOptimizerNames.begin(), kOptimizerNames.end(), text);
  if (found == kOptimizerNames.end()) return std::nullopt;
  return static_cast<Optimizer>(found - kOptimizerNames.begin());
}

Program training_step(Program model, Value loss, const TrainOptions& options) {
  Builder b(std::move(model));
  const std::vector<Value>& outputs = b.program().outputs;
  if (std::find(outputs.begin(), outputs.end(), loss) == outputs.end()) b.output(loss);
  const std::vector<Ready> ready = find_gradients(b, loss);
  if (ready.empty()) {
    throw ArgumentError(
        fmt::format("the loss %{} depends on no parameter: there is nothing to train", b.program()[loss].name));
  }
  const size_t first_update = b.program().ops.size();
  append_updates(b, ready, options);
  Program step = std::move(b).finish();
  if (options.early_updates && !options.clip_norm) place_early(step, first_update, ready);
  return step;
}

}  // namespace plimsoll::program

#include "plimsoll/program/updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/gradient_sums.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
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

// Over all gradients; where each rank has shards of them, over those of all ranks.
Value norm_of(Builder& b, std::span<const Trained> trained, const TrainOptions& options) {
  std::vector<Value> all;
  for (const Trained& one : trained) all.push_back(one.gradient);
  const Value norm = global_norm(b, all);
  if (!is_sharded(options)) return norm;
  return sqrt(b, all_reduce(b, mul(b, norm, norm), options.ranks));
}

// Whether gradient `i` can be overwritten once it is made.
bool is_own(const Program& program, std::span<const Value> gradients, size_t i, std::span<const int32_t> touched,
            int32_t made) {
  const ValueInfo& gradient = program[gradients[i]];
  if (gradient.view || made < 0 || touched[static_cast<size_t>(gradient.storage.index)] > made) return false;
  const auto shares = [&](Value other) { return other && program[other].storage == gradient.storage; };
  return std::count_if(gradients.begin(), gradients.end(), shares) == 1;
}

// What every gradient is multiplied with: by what the loss was, back, and down to the norm that is allowed. Nothing: 1.
Value scale_of_gradients(Builder& b, std::span<const Trained> trained, const TrainOptions& options,
                         const LossScale& loss_scale) {
  if (!options.clip_norm && !loss_scale.value) return {};
  const Value norm = norm_of(b, trained, options);
  if (!loss_scale.value) return clip_scale(b, norm, *options.clip_norm);
  const Value back = unscale(b, loss_scale.value, norm);
  next_loss_scale(b, loss_scale.state, norm);
  return options.clip_norm ? mul(b, back, clip_scale(b, mul(b, norm, back), *options.clip_norm)) : back;
}

// Parameters that are updated in shards are gathered, those of a bucket at once.
struct Gathers {
  struct Part {
    Value parameter;
    Value shard;
  };
  struct Pending {
    std::vector<Part> parts;
    Going going;
  };
  std::vector<Pending> pending = {};

  void start(Builder& b, std::vector<Part> parts, const TrainOptions& options) {
    const int ranks = options.ranks;
    if (parts.size() == 1 && !options.overlap) {
      all_gather(b, parts[0].parameter, parts[0].shard, ranks);
      return;
    }
    Pending started{std::move(parts), {}};
    if (started.parts.size() == 1) {
      started.going = all_gather_start(b, started.parts[0].parameter, started.parts[0].shard, ranks);
    } else {
      std::vector<Value> shards;
      for (const Part& part : started.parts) shards.push_back(part.shard);
      const Value pack = pack_shards(b, shards, 1);
      started.going = gather_start(b, pack, {b.shape(pack)[0] * ranks}, ranks);
    }
    if (options.overlap) {
      pending.push_back(std::move(started));
    } else {
      finish(b, started, ranks);
    }
  }

  static void finish(Builder& b, const Pending& started, int ranks) {
    const Value all = collective_finish(b, started.going, ranks);
    if (started.parts.size() == 1) return;
    Dim at = 0;
    for (const Part& part : started.parts) {
      take_shards(b, part.parameter, all, at, ranks);
      at = at + b.shape(part.shard)[0];
    }
  }

  void finish_all(Builder& b, int ranks) const {
    for (const Pending& started : pending) finish(b, started, ranks);
  }
};

// Emits the updates of one optimizer. `step` and `scale` are nothing where they are not needed.
struct Updater {
  Builder& b;  // NOLINT
  const TrainOptions& options;
  Value rate;
  Value step;
  Value scale;
  std::string name = {};  // of the parameter that is updated, whose shard `w` may be
  Gathers gathers = {};

  void update(std::span<const Trained> trained, const GradientBucket& bucket) {
    std::vector<Gathers::Part> parts;
    for (const size_t i : bucket.members) {
      const Value parameter = trained[i].parameter;
      name = b.program()[parameter].name;
      if (!is_sharded(options)) {
        update(parameter, trained[i].gradient);
        continue;
      }
      const Value updated = update(own_shard(b, parameter, options.ranks), trained[i].gradient);
      if (!is_spread(b.type(parameter), options)) parts.push_back({parameter, updated});
    }
    if (!parts.empty()) gathers.start(b, std::move(parts), options);
  }

  // Returns what w becomes.
  Value update(Value w, Value dw) {
    if (options.optimizer == Optimizer::sgd) return sgd(b, w, dw, rate, {options.weight_decay, scale});
    return is_quantized(w) ? update_quantized(w, dw) : update_plain(w, dw);
  }

  Value update_plain(Value w, Value dw) {
    if (options.optimizer == Optimizer::momentum) {
      return momentum(b, w, dw, state("velocity", b.type(w)), rate, momentum_options());
    }
    if (options.optimizer == Optimizer::lion) {
      return lion(b, w, dw, state("mean", b.type(w)), rate,
                  {options.beta1, options.beta2, options.weight_decay, scale});
    }
    if (options.optimizer == Optimizer::adafactor) return update_factored(w, dw);
    const Value mean = state("mean", b.type(w));
    const Moments moments{mean, state("square", b.type(w))};
    const auto emit = options.optimizer == Optimizer::adam ? adam : adamw;
    return emit(b, w, dw, moments, step, rate, adam_options());
  }

  Value update_factored(Value w, Value dw) {
    const FactoredOptions factored{.weight_decay = options.weight_decay, .scale = scale};
    const DType dtype = b.type(w).dtype;
    if (b.shape(w).rank() < 2) return adafactor_vector(b, w, dw, state("square", b.type(w)), step, rate, factored);
    const Value rows = state("rows", {dtype, rows_of(b.shape(w))});
    return adafactor(b, w, dw, {rows, state("columns", {dtype, columns_of(b.shape(w))})}, step, rate, factored);
  }

  Value update_quantized(Value w, Value dw) {
    if (options.optimizer == Optimizer::momentum) {
      return momentum_8bit(b, w, dw, quantized(w, "velocity"), step, rate, momentum_options());
    }
    const State8Bit mean = quantized(w, "mean");
    const Moments8Bit moments{mean, quantized(w, "square")};
    const auto emit = options.optimizer == Optimizer::adam ? adam_8bit : adamw_8bit;
    return emit(b, w, dw, moments, step, rate, adam_options());
  }

  bool is_quantized(Value w) const {
    const Dim elements = b.shape(w).elements();
    return options.eight_bit_state && has_8bit_state(options.optimizer) && elements.is_constant() &&
           elements.constant() >= kLeastQuantized;
  }
  MomentumOptions momentum_options() const { return {options.momentum, options.nesterov, options.weight_decay, scale}; }
  AdamOptions adam_options() const { return {options.beta1, options.beta2, options.eps, options.weight_decay, scale}; }

  Value state(std::string_view what, const Type& type) {
    return b.state(fmt::format("optimizer.{}.{}", name, what), type);
  }
  State8Bit quantized(Value w, std::string_view what) {
    const Value codes = state(what, {DType::u8, b.shape(w)});
    const Type scales{DType::f32, {scales_of(b.shape(w).elements())}};
    return {codes, state(fmt::format("{}_scales", what), scales)};
  }
};

// Shards are of elements, whatever the shape.
void check_sharding(const TrainOptions& options) {
  if (!is_sharded(options)) return;
  if (options.optimizer == Optimizer::adafactor) {
    throw UnsupportedError("adafactor's state is of rows and columns: it cannot be sharded, and is small as it is");
  }
  if (options.eight_bit_state) throw UnsupportedError("state in 8 bits cannot be sharded: choose one of the two");
}

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
    trained.push_back(
        {parameters[i], found[i], made, std::max(made, read), is_own(b.program(), found, i, touched, made)});
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

void pair_seeds(Program& model) {
  for (const Op& op : model.ops) {
    if (const auto& draws = op.def->traits.draws) model[op.inputs[static_cast<size_t>(draws->seed)]].type.shape = {2};
  }
}

std::vector<int32_t> append_updates(Builder& b, std::span<const Trained> trained, const TrainOptions& options,
                                    const LossScale& loss_scale, bool reduced) {
  check_sharding(options);
  b.set_phase(Phase::update);
  AppendedPlaces places(b);
  const bool needs_all = options.clip_norm || loss_scale.value;  // before the first update
  const int32_t first_place = needs_all ? places.last_before() : trained[0].after;
  Updater updater{b, options, b.input("optimizer.rate", {DType::f32, {}}), {}, {}};
  if (counts_steps(options)) updater.step = next_step(b, b.state("optimizer.step", {DType::i64, {}}));
  places.put_after(first_place);
  std::vector<Trained> summed(trained.begin(), trained.end());
  GradientSums sums(b, summed, options);
  const std::vector<GradientBucket> buckets = gradient_buckets(b.program(), summed, options, places.last_before());
  for (const GradientBucket& bucket : buckets) {
    if (!reduced) sums.start(bucket);
    places.put_after(bucket.made);
  }
  const auto finish = [&](const GradientBucket& bucket) {
    if (!reduced) sums.finish(bucket);
  };
  if (needs_all) std::for_each(buckets.begin(), buckets.end(), finish);
  updater.scale = scale_of_gradients(b, summed, options, loss_scale);
  places.put_after(first_place);
  for (const GradientBucket& bucket : buckets) {
    if (!needs_all) finish(bucket);
    updater.update(summed, bucket);
    places.put_after(needs_all ? places.last_before() : bucket.done);
  }
  updater.gathers.finish_all(b, options.ranks);
  places.put_after(places.last_before());
  std::vector<Value> gradients;
  for (const Trained& one : summed) gradients.push_back(one.gradient);
  if (options.ranks > 1) b.set_category(gradients, Category::gradient);
  b.set_phase(Phase::forward);
  return places.places();
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

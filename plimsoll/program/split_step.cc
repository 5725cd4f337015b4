#include "plimsoll/program/split_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/gradient_sums.h"
#include "plimsoll/program/ops/accumulate.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/spread_parameters.h"
#include "plimsoll/program/updates.h"

namespace plimsoll::program {
namespace {

std::string sum_name(const Program& model, Value parameter) {
  return fmt::format("gradient.{}", model[parameter].name);
}

Type sum_type(const Builder& b, Value parameter, const TrainOptions& options) {
  const Type type = b.type(parameter);
  return sums_are_shards(options) ? Type{type.dtype, {shard_elements(type.shape, options.ranks)}} : type;
}

// For each value that owns a storage, the one that shows what is there at the end: ranks overwrite sums with sums.
std::vector<Value> last_contents(const Program& program) {
  std::vector<Value> contents(program.values.size());
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = {static_cast<int32_t>(i)};
  for (const Op& op : program.ops) {
    for (const Value output : op.outputs) {
      if (output && !program[output].view) contents[static_cast<size_t>(program[output].storage.index)] = output;
    }
  }
  return contents;
}

// Parameters and state of the model, the sums of gradients, and the updates from them.
Program update_program(const Program& model, std::span<const Trained> trained, const TrainOptions& options) {
  Builder b;
  std::vector<Value> here(model.values.size());
  for (const Value value : model.parameters) {
    here[static_cast<size_t>(value.index)] = b.parameter(model[value].name, model[value].type, model[value].category);
  }
  for (const Value value : model.state) b.state(model[value].name, model[value].type, model[value].category);
  b.set_phase(Phase::update);
  LossScale scale;
  if (options.scale_loss) scale = scale_of_loss(b);
  std::vector<Trained> summed;
  for (const Trained& one : trained) {
    const Value parameter = here[static_cast<size_t>(one.parameter.index)];
    summed.push_back(
        {parameter, b.state(sum_name(model, one.parameter), sum_type(b, parameter, options), Category::gradient)});
  }
  append_updates(b, summed, options, scale, sums_are_shards(options));
  b.set_phase(Phase::update);
  const std::vector<Value> contents = last_contents(b.program());
  for (const Trained& one : summed) clear(b, contents[static_cast<size_t>(one.gradient.index)]);
  return std::move(b).finish();
}

// Adds a gradient to its sum. The gradient of a linear layer's weights is added as it is computed, without a copy of
// its size; the op that would make the copy is then dead.
void add_to_sum(Builder& b, Value sum, const Trained& one) {
  const Op made = b.program().ops[static_cast<size_t>(one.made)];
  if (made.def->traits.accumulate.empty()) {
    accumulate(b, sum, one.gradient);
  } else if (one.gradient == made.outputs[0]) {
    std::vector<Value> operands = {sum};
    operands.insert(operands.end(), made.inputs.begin(), made.inputs.end());
    b.emit(made.def->traits.accumulate, operands);
  } else {
    accumulate(b, sum, sum_to(b, made.inputs[0], b.shape(one.gradient)));
  }
}

// The same with shards of sums over the ranks.
void add_shards(Builder& b, std::span<const Value> sums, std::span<const Trained> trained, const TrainOptions& options,
                AppendedPlaces& places) {
  std::vector<Trained> summed(trained.begin(), trained.end());
  GradientSums reduced(b, summed, options);
  const std::vector<GradientBucket> buckets = gradient_buckets(b.program(), summed, options, places.last_before());
  for (const GradientBucket& bucket : buckets) {
    reduced.start(bucket);
    places.put_after(bucket.made);
  }
  for (const GradientBucket& bucket : buckets) {
    reduced.finish(bucket);
    for (const size_t i : bucket.members) accumulate(b, sums[i], summed[i].gradient);
    places.put_after(options.overlap ? bucket.done : bucket.made);
  }
}

// Forward, backward and the sums, with the same state as `update`.
Program micro_batch_program(Builder b, std::span<const Trained> trained, const Program& update,
                            const TrainOptions& options) {
  std::vector<Value> sums;
  for (size_t i = b.program().state.size(); i < update.state.size(); ++i) {
    const ValueInfo& state = update[update.state[i]];
    sums.push_back(b.state(state.name, state.type, state.category));
  }
  const size_t first = b.program().ops.size();
  AppendedPlaces places(b);
  b.set_phase(Phase::backward);
  if (sums_are_shards(options)) {
    add_shards(b, sums, trained, options, places);
  } else {
    for (size_t i = 0; i < trained.size(); ++i) {
      add_to_sum(b, sums[i], trained[i]);
      places.put_after(trained[i].made);
    }
  }
  const std::vector<int32_t> after = places.places();
  Program micro_batch = std::move(b).finish();
  place_after(micro_batch, first, after);
  return eliminate_dead_code(std::move(micro_batch));
}

}  // namespace

LossMean mean_of_loss(const Program& model, Value loss) {
  const Op& op = model.ops[static_cast<size_t>(producers(model)[static_cast<size_t>(loss.index)])];
  if (!op.def->traits.loss) throw ArgumentError(fmt::format("%{} is no loss", model[loss].name));
  const OwnedOpCall call(model, op);
  const OpTraits::Loss& trait = *op.def->traits.loss;
  LossMean mean{op.inputs[static_cast<size_t>(trait.targets)], {}, call->word("reduction") == "sum"};
  if (!trait.ignored.empty()) mean.ignored = call->integer(trait.ignored);
  return mean;
}

SplitStep split_training_step(Program model, Value loss, const SplitOptions& options) {
  if (const auto why = why_no_micro_batches(model, loss, options.through_batch_norm)) {
    throw UnsupportedError(fmt::format("the batch cannot be taken in micro-batches: {}", *why));
  }
  SplitStep split;
  split.mean = mean_of_loss(model, loss);
  const std::string counted = model[split.mean.counted].name;
  pair_seeds(model);
  model.outputs = {loss};
  Builder b(model);
  Value weight = b.input("micro_batch.weight", b.type(loss));
  if (options.train.scale_loss) weight = mul(b, weight, scale_of_loss(b).value);
  const std::vector<Trained> trained = find_trained(b, loss, weight);
  split.update = update_program(model, trained, options.train);
  split.micro_batch = micro_batch_program(std::move(b), trained, split.update, options.train);
  split.update = spread_parameters(std::move(split.update), options.train);
  split.micro_batch = spread_parameters(std::move(split.micro_batch), options.train);
  split.mean.counted = split.micro_batch.find(counted);
  for (const Value input : split.micro_batch.inputs) {
    if (depends_on_batch(split.micro_batch[input].type)) split.samples.push_back(input);
  }
  return split;
}

}  // namespace plimsoll::program

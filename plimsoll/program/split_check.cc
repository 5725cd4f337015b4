// Whether the samples of a model's batch are independent up to the loss, so that they may be taken in micro-batches.
#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/program/op.h"
#include "plimsoll/program/split_step.h"

namespace plimsoll::program {
namespace {

// Zero for an empty batch: so many elements for each sample.
bool counts_samples(Dim dim) {
  const Dim none = dim.bind({{"batch", 0}});
  return none.is_constant() && none.constant() == 0 && !dim.is_constant();
}

// An op that works along dimension 0 of its first operand mixes the samples.
bool works_along_batch(const Program& program, const Op& op) {
  const Type& x = program[op.inputs[0]].type;
  for (size_t i = 0; i < op.def->attributes.size(); ++i) {
    if (op.def->attributes[i].name != "axis") continue;
    const int64_t axis = op.attributes[i].dim().constant();
    return (axis < 0 ? axis + x.shape.rank() : axis) == 0;
  }
  return false;
}

std::string label(const Program& program, const Op& op) {
  return fmt::format("{} %{}", op.def->name, program[op.outputs[0]].name);
}

}  // namespace

bool is_batch_first(const Type& type) {
  if (type.shape.empty() || !counts_samples(type.shape[0])) return false;
  Type sample = type;
  sample.shape[0] = 1;
  return !depends_on_batch(sample);
}

std::optional<std::string> why_op_mixes_samples(const Program& program, const Op& op, bool through_batch_norm) {
  const auto on_batch = [&](Value value) { return value && depends_on_batch(program[value].type); };
  if (std::none_of(op.inputs.begin(), op.inputs.end(), on_batch)) return std::nullopt;
  const OpTraits& traits = op.def->traits;
  if (traits.batch_statistics) {
    if (through_batch_norm) return std::nullopt;
    return fmt::format("{} takes statistics over the whole batch", label(program, op));
  }
  if (traits.draws && !traits.draws->by_sample) {
    return fmt::format("{} cannot draw for a micro-batch", label(program, op));
  }
  if (works_along_batch(program, op)) return fmt::format("{} works along the batch", label(program, op));
  for (const Value output : op.outputs) {
    if (output && !is_batch_first(program[output].type)) {
      return fmt::format("{} makes {}, in which the samples are not the first dimension", label(program, op),
                         program[output].type.text());
    }
  }
  return std::nullopt;
}

std::optional<std::string> why_loss_is_no_mean(const Program& program, Value loss) {
  const int32_t produced_by = producers(program)[static_cast<size_t>(loss.index)];
  if (produced_by < 0) return fmt::format("the loss %{} is made by no op", program[loss].name);
  const Op& op = program.ops[static_cast<size_t>(produced_by)];
  if (!op.def->traits.loss) {
    return fmt::format("the loss is made by {}, which is no mean over the samples", label(program, op));
  }
  const Value targets = op.inputs[static_cast<size_t>(op.def->traits.loss->targets)];
  const Value counted = program[targets].storage;
  if (std::find(program.inputs.begin(), program.inputs.end(), counted) == program.inputs.end() ||
      program[targets].view) {
    return fmt::format("the targets of {} are no input of the program", label(program, op));
  }
  return std::nullopt;
}

bool depends_on_batch(const Type& type) { return type.shape.bind({{"batch", 1}}) != type.shape; }

std::optional<std::string> why_no_micro_batches(const Program& model, Value loss, bool through_batch_norm) {
  for (const Value input : model.inputs) {
    const Type& type = model[input].type;
    if (depends_on_batch(type) && !is_batch_first(type)) {
      return fmt::format("the samples are not the first dimension of the input %{}, {}", model[input].name,
                         type.text());
    }
  }
  if (auto why = why_loss_is_no_mean(model, loss)) return why;
  const int32_t produced_by = producers(model)[static_cast<size_t>(loss.index)];
  for (size_t i = 0; i < model.ops.size(); ++i) {
    if (static_cast<int32_t>(i) == produced_by) continue;
    if (auto why = why_op_mixes_samples(model, model.ops[i], through_batch_norm)) return why;
  }
  return std::nullopt;
}

}  // namespace plimsoll::program

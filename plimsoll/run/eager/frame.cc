#include "plimsoll/run/eager/frame.h"

namespace plimsoll::eager {

using program::Op;
using program::Program;
using program::Value;

std::vector<int32_t> last_reads(const Program& program, std::span<const Value> kept) {
  std::vector<int32_t> last(program.values.size(), -1);
  for (size_t op = 0; op < program.ops.size(); ++op) {
    for (const Value value : program.ops[op].inputs) {
      last[static_cast<size_t>(value.index)] = static_cast<int32_t>(op);
    }
  }
  for (const Value value : kept) {
    if (value) last[static_cast<size_t>(value.index)] = INT32_MAX;
  }
  return last;
}

void Frame::run(size_t first, std::optional<Category> category) {
  for (size_t i = first; i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    const std::vector<Data> inputs = take_inputs(i);
    const std::vector<Place> wanted = places(op, inputs);
    std::vector<Data> results =
        engine_.run({*op.def, op.attributes, inputs, wanted, category.value_or(program_[op.outputs[0]].category)});
    for (size_t k = 0; k < results.size(); ++k) {
      const Value value = op.outputs[k];
      if (value && last_reads_[static_cast<size_t>(value.index)] >= 0) at(value) = std::move(results[k]);
    }
  }
}

// Operands that are read for the last time leave the frame.
std::vector<Data> Frame::take_inputs(size_t op) {
  const std::vector<Value>& values = program_.ops[op].inputs;
  std::vector<Data> inputs;
  inputs.reserve(values.size());
  for (const Value value : values) inputs.push_back(at(value));
  for (const Value value : values) {
    if (last_reads_[static_cast<size_t>(value.index)] == static_cast<int32_t>(op)) at(value) = {};
  }
  return inputs;
}

std::vector<Place> Frame::places(const Op& op, std::span<const Data> inputs) const {
  std::vector<Place> places;
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    places.push_back(op.outputs[k] ? own_place(op, k, inputs) : Place{.kind = Place::Kind::absent});
  }
  return places;
}

Place Frame::own_place(const Op& op, size_t k, std::span<const Data> inputs) const {
  const program::ValueInfo& info = program_[op.outputs[k]];
  if (placing_ == Placing::as_program) {
    return {.kind = info.storage == op.outputs[k] ? Place::Kind::own : Place::Kind::automatic};
  }
  if (k > 0 || op.def->produces_views()) return {};
  for (const int operand : op.def->in_place) {
    const auto i = static_cast<size_t>(operand);
    if (i < inputs.size() && inputs[i].is_sole() && inputs[i].type() == info.type) {
      return {.kind = Place::Kind::in_place, .operand = operand};
    }
  }
  return {};
}

}  // namespace plimsoll::eager

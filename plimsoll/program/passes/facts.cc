#include "plimsoll/program/passes/facts.h"

#include <algorithm>

namespace plimsoll::program {

Facts::Facts(const Program& program)
    : program_(program),
      produced_at_(producers(program)),
      readers_(program.values.size(), 0),
      outputs_(program.values.size(), false),
      last_touch_(program.values.size(), -1),
      overwritten_(program.values.size(), false) {
  for (size_t place = 0; place < program.ops.size(); ++place) look_at(static_cast<int32_t>(place));
  for (const Value output : program.outputs) {
    outputs_[at(output)] = true;
    ++readers_[at(output)];
    last_touch_[at(program[output].storage)] = INT32_MAX;
  }
  for (const auto* sources : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value source : *sources) last_touch_[at(source)] = INT32_MAX;
  }
}

void Facts::look_at(int32_t place) {
  const Op& op = program_.ops[static_cast<size_t>(place)];
  for (const Value input : op.inputs) {
    ++readers_[at(input)];
    last_touch_[at(program_[input].storage)] = place;
  }
  for (const Value output : op.outputs) {
    if (output) last_touch_[at(program_[output].storage)] = place;
  }
  for (const Overwrite& overwrite : op.def->overwrites) {
    overwritten_[at(program_[op.inputs[static_cast<size_t>(overwrite.input)]].storage)] = true;
  }
}

const Op* Facts::maker(Value value) const {
  const int32_t place = produced_at(value);
  return place < 0 ? nullptr : &program_.ops[static_cast<size_t>(place)];
}

const Op* Facts::produced_by(Value value, std::string_view op) const {
  const Op* made = maker(value);
  return made != nullptr && made->def->name == op && made->outputs[0] == value ? made : nullptr;
}

const Attribute& attribute(const Op& op, std::string_view name) {
  return OpCall{*op.def, {}, op.attributes}.attribute(name);
}

bool is_view(const Program& program, const Op& op) {
  return op.def->overwrites.empty() && !op.outputs.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](Value output) { return output && program[output].view.has_value(); });
}

void move_storages(Program& program, const std::vector<Value>& same_as) {
  for (ValueInfo& value : program.values) {
    const Value owner = same_as[static_cast<size_t>(value.storage.index)];
    if (!owner) continue;
    value.storage = program[owner].storage;
    value.category = program[owner].category;
  }
}

}  // namespace plimsoll::program

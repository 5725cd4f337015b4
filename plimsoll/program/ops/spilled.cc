#include "plimsoll/program/ops/spilled.h"

#include <algorithm>
#include <array>

#include "plimsoll/program/passes/dead_code.h"

namespace plimsoll::program {
namespace {

constexpr std::array<const char*, 4> kOps = {"momentum", "adam", "adamw", "lion"};

const OpDef* spilled_form(const OpDef& def) {
  const bool has_one = std::find(kOps.begin(), kOps.end(), def.name) != kOps.end();
  return has_one ? op_table().find(def.name + "_spilled") : nullptr;
}

bool is_spilled(const OpDef& def) { return std::string_view(def.name).ends_with("_spilled"); }

}  // namespace

std::vector<Value> spilled_values(const Program& program) {
  std::vector<Value> values;
  for (const Op& op : program.ops) {
    if (!is_spilled(*op.def)) continue;
    for (const Overwrite& overwrite : op.def->overwrites) {
      if (overwrite.input > 0) values.push_back(op.inputs[static_cast<size_t>(overwrite.input)]);
    }
  }
  return values;
}

Program spill_state(Program step, int64_t least_bytes) {
  int64_t slots = 0;
  for (Op& op : step.ops) {
    const OpDef* form = spilled_form(*op.def);
    if (form == nullptr || step[op.inputs[0]].type.bytes().constant() < least_bytes) continue;
    op.def = form;
    op.attributes.emplace_back(slots++);
  }
  return step;
}

SplitStep spill_state(SplitStep split, int64_t least_bytes) {
  split.update = spill_state(std::move(split.update), least_bytes);
  const Program before = split.micro_batch;
  for (const Value spilled : spilled_values(split.update)) {
    std::erase(split.micro_batch.state, before.find(split.update[spilled].name));
  }
  split.micro_batch = eliminate_dead_code(std::move(split.micro_batch));
  split.mean.counted = split.micro_batch.find(before[split.mean.counted].name);
  for (Value& sample : split.samples) sample = split.micro_batch.find(before[sample].name);
  return split;
}

void register_spilled(OpTable& table) {
  for (const char* name : kOps) {
    const OpDef& plain = table.get(name);
    OpDef def;
    def.name = plain.name + "_spilled";
    def.inputs = plain.inputs;
    def.outputs = plain.outputs;
    def.attributes = plain.attributes;
    def.attributes.push_back({"slot", AttributeKind::integer, {}});
    def.infer = plain.infer;
    def.overwrites = plain.overwrites;
    def.flops = plain.flops;
    table.add(std::move(def));
  }
}

}  // namespace plimsoll::program

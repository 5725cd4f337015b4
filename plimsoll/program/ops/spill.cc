#include "plimsoll/program/ops/spill.h"

namespace plimsoll::program {
namespace {

const std::vector<AttributeSpec> kWhere = {{"at", AttributeKind::integer, {}}, {"region", AttributeKind::integer, {}}};

OpDef copy_op(std::string name, std::vector<std::string> inputs) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = std::move(inputs);
  def.attributes = kWhere;
  def.infer = [](const OpCall& call) { return std::vector<Type>{call.input(0)}; };
  def.flops = [](const OpCall&) { return Dim(0); };
  return def;
}

// Of what is on its way: the same storage, which holds all of it from then on.
OpDef finish_op(std::string name, std::vector<std::string> inputs) {
  OpDef def = copy_op(std::move(name), std::move(inputs));
  def.overwrites = {{0, 0}};
  return def;
}

}  // namespace

std::vector<Value> spilled_results(const Program& program) {
  static const OpDef* const spill = &op_table().get("spill");
  std::vector<Value> values;
  for (const Op& op : program.ops) {
    if (op.def == spill) values.push_back(op.outputs[0]);
  }
  return values;
}

void register_spill(OpTable& table) {
  table.add(copy_op("spill", {"x"}));
  table.add(finish_op("spill_finish", {"going", "x"}));
  table.add(copy_op("fetch", {"gone"}));
  table.add(finish_op("fetch_finish", {"coming"}));
}

}  // namespace plimsoll::program

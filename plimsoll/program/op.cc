#include "plimsoll/program/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "plimsoll/base/error.h"

namespace plimsoll::program {
namespace {

std::string_view bare(std::string_view operand) { return operand.substr(0, operand.find_first_of("?.")); }

[[noreturn]] void reject_definition(const OpDef& def, std::string_view why) {
  throw ArgumentError(fmt::format("definition of op {}: {}", quote(def.name), why));
}

void derive_arity(OpDef& def) {
  def.most_inputs = static_cast<int>(def.inputs.size());
  for (const std::string& operand : def.inputs) {
    const bool variadic = operand.ends_with("...");
    if (variadic && &operand != &def.inputs.back()) reject_definition(def, "only the last operand may be variadic");
    if (variadic) def.most_inputs = INT32_MAX;
    if (operand.ends_with('?')) continue;
    if (&operand != def.inputs.data() && (&operand)[-1].ends_with('?')) {
      reject_definition(def, "only last operands may be optional");
    }
    ++def.least_inputs;
  }
  def.variadic_outputs = def.outputs.size() == 1 && def.outputs[0].ends_with("...");
}

void add_attribute(const OpDef& def, std::vector<std::optional<Attribute>>& slots, std::string_view name,
                   const Attribute& attribute) {
  for (size_t i = 0; i < def.attributes.size(); ++i) {
    const AttributeSpec& spec = def.attributes[i];
    if (spec.name != name) continue;
    if (!attribute.fits(spec.kind)) {
      throw ArgumentError(fmt::format("{}: attribute {} is {}, expected {}", def.name, name, quote(attribute.text()),
                                      program::name(spec.kind)));
    }
    slots[i] = attribute;
    return;
  }
  throw ArgumentError(fmt::format("{}: has no attribute {}", def.name, quote(name)));
}

std::vector<Type> types_of(const Program& program, const std::vector<Value>& values) {
  std::vector<Type> types;
  types.reserve(values.size());
  for (const Value value : values) types.push_back(value ? program[value].type : Type{DType::u8, {0}});
  return types;
}

Dim sum_bytes(std::span<const Type> types) {
  Dim sum = 0;
  for (const Type& type : types) sum = sum + type.bytes();
  return sum;
}

std::string_view name_of(const Program& program, const Op& op) {
  return op.outputs.empty() || !op.outputs[0] ? std::string_view() : program[op.outputs[0]].name;
}

}  // namespace

std::string_view OpDef::input_name(int i) const {
  return bare(inputs[std::min(static_cast<size_t>(i), inputs.size() - 1)]);
}

std::optional<Layout> OpDef::view_of(const OpCall& call, const Layout& of, int k) const {
  if (views) return views(call, of, k);
  if (view && k == 0) return view(call, of);
  return std::nullopt;
}

const Attribute& OpCall::attribute(std::string_view wanted) const {
  for (size_t i = 0; i < def.attributes.size(); ++i) {
    if (def.attributes[i].name == wanted) return attributes[i];
  }
  throw ArgumentError(fmt::format("{}: a rule asks for attribute {}, which the schema lacks", def.name, quote(wanted)));
}

void OpCall::reject(std::string_view rule) const {
  std::string operands;
  for (int i = 0; i < arity(); ++i) {
    operands += fmt::format("{}{} is {}", i == 0 ? "" : ", ", def.input_name(i), input(i).text());
  }
  const std::string place = label.empty() ? def.name : fmt::format("{} %{}", def.name, label);
  throw ArgumentError(fmt::format("{}: {}{}{}", place, operands, operands.empty() ? "" : "; ", rule));
}

int OpCall::axis(std::string_view wanted, int i) const {
  const int64_t given = integer(wanted);
  const int rank = shape(i).rank();
  if (given >= -rank && given < rank) return static_cast<int>(given < 0 ? given + rank : given);
  reject(fmt::format("{} is {}, expected {} to {}", wanted, given, -rank, rank - 1));
}

void OpCall::require_floating(int i) const {
  if (!is_floating(input(i).dtype)) reject(fmt::format("{} must be floating", def.input_name(i)));
}

void OpCall::require_rank(int i, int rank) const {
  if (shape(i).rank() != rank) {
    reject(fmt::format("{} must have {} dimensions, not {}", def.input_name(i), rank, shape(i).rank()));
  }
}

void OpCall::require_same(int i, int j) const {
  if (input(i) != input(j)) {
    reject(fmt::format("{} and {} must have the same dtype and shape", def.input_name(i), def.input_name(j)));
  }
}

void OpCall::require_same_dtype(int i, int j) const {
  if (input(i).dtype != input(j).dtype) {
    reject(fmt::format("{} and {} must have the same dtype", def.input_name(i), def.input_name(j)));
  }
}

void OpTable::add(OpDef def) {
  if (find(def.name) != nullptr) reject_definition(def, "the name is taken");
  if (!def.infer) reject_definition(def, "it has no shape rule");
  derive_arity(def);
  defs_.push_back(std::move(def));
  by_name_[defs_.back().name] = &defs_.back();
}

const OpDef* OpTable::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const OpDef& OpTable::get(std::string_view name) const {
  const OpDef* def = find(name);
  if (def == nullptr) throw ArgumentError(fmt::format("there is no op {}", quote(name)));
  return *def;
}

OpDef& OpTable::get_mutable(std::string_view name) {
  get(name);
  return *by_name_.find(name)->second;
}

void check_arity(const OpDef& def, size_t given) {
  const auto count = static_cast<int64_t>(given);
  if (count >= def.least_inputs && count <= def.most_inputs) return;
  const std::string wanted = def.most_inputs == INT32_MAX ? fmt::format("at least {}", def.least_inputs)
                             : def.least_inputs == def.most_inputs
                                 ? fmt::format("{}", def.least_inputs)
                                 : fmt::format("{} to {}", def.least_inputs, def.most_inputs);
  throw ArgumentError(fmt::format("{}: takes {} operands, not {}", def.name, wanted, given));
}

std::vector<Attribute> complete_attributes(const OpDef& def,
                                           std::span<const std::pair<std::string_view, Attribute>> given) {
  std::vector<std::optional<Attribute>> slots;
  for (const AttributeSpec& spec : def.attributes) slots.push_back(spec.fallback);
  for (const auto& [name, attribute] : given) add_attribute(def, slots, name, attribute);
  std::vector<Attribute> attributes;
  attributes.reserve(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i]) throw ArgumentError(fmt::format("{}: attribute {} is missing", def.name, def.attributes[i].name));
    attributes.push_back(std::move(*slots[i]));
  }
  return attributes;
}

OwnedOpCall::OwnedOpCall(const Program& program, const Op& op)
    : inputs_(types_of(program, op.inputs)),
      outputs_(types_of(program, op.outputs)),
      call_{*op.def, inputs_, op.attributes, outputs_, name_of(program, op)} {}

Dim flops(const Program& program, const Op& op) {
  const OwnedOpCall call(program, op);
  if (op.def->flops) return op.def->flops(*call);
  const bool is_view = !op.outputs.empty() && program[op.outputs[0]].view.has_value();
  return is_view ? Dim(0) : call->output(0).shape.elements();
}

Dim traffic_bytes(const Program& program, const Op& op) {
  const OwnedOpCall call(program, op);
  if (op.def->bytes) return op.def->bytes(*call);
  const bool is_view = !op.outputs.empty() && program[op.outputs[0]].view.has_value();
  return is_view ? Dim(0) : sum_bytes(call->inputs) + sum_bytes(call->outputs);
}

}  // namespace plimsoll::program

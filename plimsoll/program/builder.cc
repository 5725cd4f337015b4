#include "plimsoll/program/builder.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"

namespace plimsoll::program {
namespace {

void check_name(std::string_view name) {
  if (is_value_name(name)) return;
  throw ArgumentError(fmt::format("{} is not a value name: expected letters, digits and _ . / -", quote(name)));
}

}  // namespace

Builder::Builder(Program program) : program_(std::move(program)) {
  for (const ValueInfo& value : program_.values) taken_[value.name] = 1;
}

Value Builder::input(std::string_view name, Type type, Category category) {
  return add_source(name, type, category, program_.inputs);
}

Value Builder::parameter(std::string_view name, Type type, Category category) {
  return add_source(name, type, category, program_.parameters);
}

Value Builder::state(std::string_view name, Type type, Category category) {
  return add_source(name, type, category, program_.state);
}

void Builder::output(Value value) { program_.outputs.push_back(value); }

Value Builder::emit(std::string_view op_name, std::span<const Value> inputs, std::span<const NamedAttribute> attributes,
                    std::string_view name) {
  const OpDef& def = op_table().get(op_name);
  check_arity(def, inputs.size());
  Op op{&def, phase_, {inputs.begin(), inputs.end()}, {}, complete_attributes(def, attributes)};
  const std::string base = scoped(name.empty() ? op_name : name);
  check_name(base);
  std::vector<Type> input_types;
  input_types.reserve(inputs.size());
  for (const Value value : inputs) {
    if (!value) throw ArgumentError(fmt::format("{} %{}: an operand is no value", def.name, base));
    input_types.push_back(type(value));
  }
  OpCall call{def, input_types, op.attributes, {}, base};
  const std::vector<Type> output_types = def.infer(call);
  call.outputs = output_types;
  for (size_t k = 0; k < output_types.size(); ++k) {
    op.outputs.push_back(def.is_optional_output(k) ? Value{} : add_output(op, call, k, base));
  }
  program_.ops.push_back(std::move(op));
  return last_outputs()[0];
}

Value Builder::emit(std::string_view op, std::initializer_list<Value> inputs,
                    std::initializer_list<NamedAttribute> attributes, std::string_view name) {
  return emit(op, std::span(inputs.begin(), inputs.size()), std::span(attributes.begin(), attributes.size()), name);
}

Value Builder::optional_output(size_t op_index, size_t k) {
  const Op& op = program_.ops[op_index];
  if (op.outputs[k]) return op.outputs[k];
  const OwnedOpCall made(program_, op);
  OpCall call = *made;
  const std::vector<Type> output_types = op.def->infer(call);
  call.outputs = output_types;
  const std::string_view suffix = op.def->outputs[k];
  const std::string base = fmt::format("{}.{}", program_[op.outputs[0]].name, suffix.substr(0, suffix.size() - 1));
  const Value value = add_output(op, call, k, base);
  program_.ops[op_index].outputs[k] = value;
  return value;
}

void Builder::rename(Value value, std::string_view name) {
  if (program_[value].name == name) return;
  check_name(name);
  taken_.erase(program_[value].name);
  program_[value].name = unique_name(name);
}

void Builder::set_category(std::span<const Value> values, Category category) {
  std::vector<bool> chosen(program_.values.size(), false);
  for (const Value value : values) chosen[static_cast<size_t>(program_[value].storage.index)] = true;
  for (ValueInfo& value : program_.values) {
    if (chosen[static_cast<size_t>(value.storage.index)]) value.category = category;
  }
}

Value Builder::add_value(std::string name, Type type, Category category) {
  if (type.shape.is_negative()) {
    throw ArgumentError(fmt::format("%{} would be {}: a dimension is negative", name, type.text()));
  }
  const Value value{static_cast<int32_t>(program_.values.size())};
  program_.values.push_back({std::move(name), type, category, value, std::nullopt});
  return value;
}

Value Builder::add_source(std::string_view name, Type type, Category category, std::vector<Value>& list) {
  std::string full = scoped(name);
  check_name(full);
  if (taken_.contains(full)) throw ArgumentError(fmt::format("the name %{} is taken", full));
  list.push_back(add_value(full, type, category));
  taken_.emplace(std::move(full), 1);
  return list.back();
}

Value Builder::add_output(const Op& op, const OpCall& call, size_t k, std::string_view base) {
  const Value value = add_value(unique_name(base), call.outputs[k], Category::activation);
  place(op, call, k, value);
  return value;
}

// Puts the output into the storage that the op's memory facts say.
void Builder::place(const Op& op, const OpCall& call, size_t k, Value value) {
  const auto share = [&](Value with, std::optional<Layout> view) {
    program_[value].storage = program_[with].storage;
    program_[value].category = program_[with].category;
    program_[value].view = view;
  };
  for (const Overwrite& overwrite : op.def->overwrites) {
    if (static_cast<size_t>(overwrite.output) != k) continue;
    const Value with = op.inputs[static_cast<size_t>(overwrite.input)];
    share(with, program_[with].view);
  }
  if (!op.def->produces_views()) return;
  const Value of = op.inputs[0];
  if (auto view = op.def->view_of(call, layout(program_[of]), static_cast<int>(k))) share(of, view);
}

std::string Builder::unique_name(std::string_view base) {
  const auto [found, fresh] = taken_.try_emplace(std::string(base), 1);
  if (fresh) return found->first;
  int& last = found->second;  // stays where it is when the map grows
  for (;;) {
    std::string name = fmt::format("{}_{}", base, ++last);
    if (taken_.try_emplace(name, 1).second) return name;
  }
}

Scope::Scope(Builder& builder, std::string_view name) : builder_(builder), outer_size_(builder.scope_.size()) {
  builder_.scope_ += fmt::format("{}.", name);
}

Scope::~Scope() { builder_.scope_.resize(outer_size_); }

}  // namespace plimsoll::program

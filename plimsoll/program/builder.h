// A Builder makes a program value by value. Shapes and dtypes are inferred at once, so an error stands where it was
// made; names are made unique. The typed functions of ops/<family>.h (`relu(b, x)`) are the way to call it from models.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plimsoll/program/op.h"
#include "plimsoll/program/program.h"

namespace plimsoll::program {

using NamedAttribute = std::pair<std::string_view, Attribute>;

class Builder {
 public:
  Builder() = default;
  explicit Builder(Program program);  // goes on with this one

  // Values that come in. ArgumentError for a name that is taken or no value name. Names get the scope's prefix.
  Value input(std::string_view name, Type type, Category category = Category::input);
  Value parameter(std::string_view name, Type type, Category category = Category::parameter);
  Value state(std::string_view name, Type type, Category category = Category::optimizer_state);
  void output(Value value);

  // Appends an op and returns its first output, named `name` (or after the op), made unique. ArgumentError from the
  // op's rules.
  Value emit(std::string_view op, std::span<const Value> inputs, std::span<const NamedAttribute> attributes = {},
             std::string_view name = {});
  Value emit(std::string_view op, std::initializer_list<Value> inputs,
             std::initializer_list<NamedAttribute> attributes = {}, std::string_view name = {});

  // The outputs of the last op emitted; nothing where an optional one is not made.
  const std::vector<Value>& last_outputs() const { return program_.ops.back().outputs; }

  // Optional output `output` of op `op` of the program, made now if it is not there.
  Value optional_output(size_t op, size_t output);

  // A new name for a value, as it stands (without the scope), made unique.
  void rename(Value value, std::string_view name);
  // Puts the storages of these values, and so all that share them, under a category. Looks at every value once.
  void set_category(std::span<const Value> values, Category category);

  // Ops emitted from now on belong to this phase.
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  // By value: a reference would dangle as soon as the next op is emitted, also as an argument beside it.
  Type type(Value value) const { return program_[value].type; }
  Dims shape(Value value) const { return program_[value].type.shape; }
  const Program& program() const { return program_; }
  bool is_taken(const std::string& name) const { return taken_.contains(name); }  // by a value
  Program finish() && { return std::move(program_); }

 private:
  friend class Scope;
  Value add_value(std::string name, Type type, Category category);
  Value add_source(std::string_view name, Type type, Category category, std::vector<Value>& list);
  Value add_output(const Op& op, const OpCall& call, size_t k, std::string_view base);
  void place(const Op& op, const OpCall& call, size_t k, Value value);
  std::string unique_name(std::string_view base);
  std::string scoped(std::string_view name) const { return scope_ + std::string(name); }

  Program program_;
  Phase phase_ = Phase::forward;
  std::string scope_;                           // "" or "layer1.0."
  std::unordered_map<std::string, int> taken_;  // a name, and the last number tried after it
};

// Names made while it lives start with `name.`: `Scope block(b, "layer1");`
class Scope {
 public:
  Scope(Builder& builder, std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Builder& builder_;
  size_t outer_size_;
};

}  // namespace plimsoll::program

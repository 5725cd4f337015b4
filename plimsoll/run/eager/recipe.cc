#include "plimsoll/run/eager/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/run/eager/frame.h"
#include "plimsoll/run/eager/key.h"

namespace plimsoll::eager {
namespace {

using program::Builder;
using program::Value;

std::string key_of(const Recorded& op, const std::vector<bool>& arriving) {
  Key key(*op.def, op.attributes);
  for (const program::Type& type : op.types) key.add(type);
  for (const bool wanted : op.wants) key.add(int64_t{wanted});
  for (const bool arrives : arriving) key.add(int64_t{arrives});
  return std::move(key).take();
}

// Op 0 of the program, with its operands as inputs.
void emit_op(Builder& b, const Recorded& op, Recipe& recipe) {
  for (size_t i = 0; i < op.types.size(); ++i) {
    recipe.operands.push_back(b.input(fmt::format("operand.{}", i), op.types[i]));
  }
  std::vector<program::NamedAttribute> attributes;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    attributes.emplace_back(op.def->attributes[i].name, op.attributes[i]);
  }
  b.emit(op.def->name, recipe.operands, attributes);
}

void add_seeds(Builder& b, const std::vector<bool>& arriving, Recipe& recipe) {
  const std::vector<Value> results = b.last_outputs();
  for (size_t k = 0; k < results.size(); ++k) {
    const bool can = results[k] && is_floating(b.type(results[k]).dtype);
    const bool arrives = can && (arriving.empty() || arriving[k]);
    recipe.seeds.push_back(arrives ? b.input(fmt::format("seed.{}", k), b.type(results[k])) : Value{});
  }
}

void emit_gradients(Builder& b, const Recorded& op, Recipe& recipe) {
  std::vector<program::Root> roots;
  for (size_t k = 0; k < recipe.seeds.size(); ++k) {
    if (recipe.seeds[k]) roots.push_back({b.program().ops[0].outputs[k], recipe.seeds[k]});
  }
  std::vector<Value> wanted;
  for (size_t i = 0; i < op.wants.size(); ++i) {
    if (op.wants[i]) wanted.push_back(recipe.operands[i]);
  }
  const std::vector<Value> found = program::gradients(b, roots, wanted);
  size_t next = 0;
  for (const bool wants : op.wants) recipe.gradients.push_back(wants ? found[next++] : Value{});
}

// Which parts of op 0 the ops after it read.
std::vector<size_t> kept_parts(const Recipe& recipe) {
  std::vector<size_t> kept;
  for (size_t part = 0; part < recipe.operands.size() + recipe.results().size(); ++part) {
    const Value value = recipe.part(part);
    if (value && recipe.last_reads[static_cast<size_t>(value.index)] > 0) kept.push_back(part);
  }
  return kept;
}

std::shared_ptr<const Recipe> make_recipe(const Recorded& op, const std::vector<bool>& arriving) {
  auto recipe = std::make_shared<Recipe>();
  Builder b;
  emit_op(b, op, *recipe);
  add_seeds(b, arriving, *recipe);
  emit_gradients(b, op, *recipe);
  recipe->program = std::move(b).finish();
  recipe->last_reads = last_reads(recipe->program, recipe->gradients);
  recipe->kept = kept_parts(*recipe);
  return recipe;
}

}  // namespace

const std::vector<Value>& Recipe::results() const { return program.ops[0].outputs; }

Value Recipe::part(size_t number) const {
  return number < operands.size() ? operands[number] : results()[number - operands.size()];
}

std::shared_ptr<const Recipe> RecipeBook::find(const Recorded& op, const std::vector<bool>& arriving) {
  std::string key = key_of(op, arriving);
  const auto found = recipes_.find(key);
  if (found != recipes_.end()) return found->second;
  auto made = make_recipe(op, arriving);
  if (recipes_.size() >= kMost) recipes_.clear();
  return recipes_.emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace plimsoll::eager

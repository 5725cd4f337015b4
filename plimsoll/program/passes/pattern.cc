#include "plimsoll/program/passes/pattern.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/program/passes/dead_code.h"

namespace plimsoll::program {
namespace {

bool contains(const std::vector<Value>& values, Value value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The places of the ops between the operands and the root, the root included; constants are left out.
std::vector<int32_t> expression(const Facts& facts, int32_t root, const std::vector<Value>& operands) {
  std::vector<int32_t> places = {root};
  for (size_t i = 0; i < places.size(); ++i) {
    for (const Value input : facts.program().ops[static_cast<size_t>(places[i])].inputs) {
      const int32_t place = facts.produced_at(input);
      const bool ends = place < 0 || contains(operands, input) || uniform(facts, input);
      if (!ends && std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

int reads(const Op& op, Value value) { return static_cast<int>(std::count(op.inputs.begin(), op.inputs.end(), value)); }

// Whether only ops of the expression read what its ops, but for the root, make.
bool is_closed(const Facts& facts, const std::vector<int32_t>& places) {
  const auto op_at = [&](int32_t place) -> const Op& { return facts.program().ops[static_cast<size_t>(place)]; };
  for (const int32_t place : places) {
    if (place == places.back()) break;
    for (const Value output : op_at(place).outputs) {
      if (!output) continue;
      int inside = 0;
      for (const int32_t reader : places) inside += reads(op_at(reader), output);
      if (inside != facts.readers(output)) return false;
    }
  }
  return true;
}

// The places from `first` on of the ops that the operands come from.
std::set<int32_t> makers_since(const Facts& facts, int32_t first, const std::vector<Value>& operands) {
  std::set<int32_t> makers;
  std::vector<Value> open = operands;
  while (!open.empty()) {
    const int32_t place = facts.produced_at(open.back());
    open.pop_back();
    if (place < first || !makers.insert(place).second) continue;
    const std::vector<Value>& inputs = facts.program().ops[static_cast<size_t>(place)].inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return makers;
}

// Whether between the first and the last op of the expression there is nothing else that takes memory, but for what
// makes its operands.
bool stands_together(const Facts& facts, const std::vector<int32_t>& places, const std::vector<Value>& operands) {
  const std::set<int32_t> makers = makers_since(facts, places.front(), operands);
  for (int32_t place = places.front(); place < places.back(); ++place) {
    const Op& op = facts.program().ops[static_cast<size_t>(place)];
    const bool constant = !op.outputs.empty() && op.outputs[0] && uniform(facts, op.outputs[0]);
    if (constant || is_view(facts.program(), op) || makers.contains(place)) continue;
    if (!std::binary_search(places.begin(), places.end(), place)) return false;
  }
  return true;
}

// The types of the results; empty when the op does not take such operands.
std::vector<Type> result_types(const Program& program, const Op& op) {
  try {
    return op.def->infer(*OwnedOpCall(program, op));
  } catch (const ArgumentError&) {
    return {};
  }
}

// Puts the replacement at `root`, or leaves the program as it is and says so.
bool replace_root(Program& program, size_t root, const Replacement& by) {
  const Value result = program.ops[root].outputs[0];
  Program changed = by.views.empty() ? Program() : program;  // views cannot be taken back
  Program& target = by.views.empty() ? program : changed;
  std::vector<Value> operands = by.operands;
  for (const OperandView& view : by.views) {
    operands[view.operand] = insert_op(target, root++, view.op, {operands[view.operand]}, {view.attribute});
  }
  const OpDef& def = op_table().get(by.op);
  Op op{&def, target.ops[root].phase, operands, {result}, complete_attributes(def, by.attributes)};
  const std::vector<Type> types = result_types(target, op);
  if (types.empty() || types[0] != target[result].type) return false;
  op.outputs.resize(types.size());
  target.ops[root] = std::move(op);
  if (!by.views.empty()) program = std::move(changed);
  return true;
}

// One step of peel: takes the last scaling or shift off, and says whether there was one.
bool peel_once(const Facts& facts, Scaled& scaled) {
  const Op* op = facts.maker(scaled.base);
  if (op == nullptr) return false;
  const std::string& name = op->def->name;
  const auto take = [&](Value base, double scale, double shift) {
    if (facts.type(base) != facts.type(scaled.base)) return false;
    scaled = {base, scaled.scale * scale, scaled.shift + scaled.scale * shift};
    return true;
  };
  if (name == "neg") return take(op->inputs[0], -1, 0);
  if (name == "affine" && attribute(*op, "divisor").dim().is_constant()) {
    const auto divisor = static_cast<double>(attribute(*op, "divisor").dim().constant());
    return take(op->inputs[0], attribute(*op, "scale").real() / divisor, attribute(*op, "shift").real());
  }
  if (op->inputs.size() != 2) return false;
  const auto left = uniform(facts, op->inputs[0]);
  const auto right = uniform(facts, op->inputs[1]);
  if (name == "mul" && right) return take(op->inputs[0], *right, 0);
  if (name == "mul" && left) return take(op->inputs[1], *left, 0);
  if (name == "div" && right) return take(op->inputs[0], 1 / *right, 0);
  if (name == "add" && right) return take(op->inputs[0], 1, *right);
  if (name == "add" && left) return take(op->inputs[1], 1, *left);
  if (name == "sub" && right) return take(op->inputs[0], 1, -*right);
  if (name == "sub" && left) return take(op->inputs[1], -1, *left);
  return false;
}

// How often x is a factor of x to a whole power that is worth multiplying out; 0 for others.
int power_of(const Op& op) {
  if (op.def->name == "square") return 2;
  if (op.def->name != "pow_scalar") return 0;
  const double exponent = attribute(op, "exponent").real();
  return exponent == 2 || exponent == 3 ? static_cast<int>(exponent) : 0;
}

constexpr size_t kMostFactors = 8;  // more than any pattern has; bounds the search

void multiply_out(const Facts& facts, Value value, const Type& type, const std::vector<Value>& whole, Product& into) {
  const auto recurse = [&](Value factor) { multiply_out(facts, factor, type, whole, into); };
  const Op* op = facts.maker(value);
  const bool ends = contains(whole, value) || op == nullptr || facts.type(value) != type;
  if (ends || into.factors.size() >= kMostFactors) return into.factors.push_back(value);
  Scaled scaled{value};
  if (peel_once(facts, scaled) && scaled.shift == 0) {
    into.constant *= scaled.scale;
    return recurse(scaled.base);
  }
  if (op->def->name == "mul") {
    recurse(op->inputs[0]);
    return recurse(op->inputs[1]);
  }
  const int power = power_of(*op);
  if (power == 0) return into.factors.push_back(value);
  for (int i = 0; i < power; ++i) recurse(op->inputs[0]);
}

}  // namespace

Value insert_op(Program& program, size_t place, std::string_view op, std::vector<Value> operands,
                std::vector<NamedAttribute> attributes) {
  const Phase phase = program.ops[place].phase;
  Builder b(std::move(program));
  b.set_phase(phase);
  const Value result = b.emit(op, operands, attributes);
  program = std::move(b).finish();
  std::rotate(program.ops.begin() + static_cast<int64_t>(place), program.ops.end() - 1, program.ops.end());
  return result;
}

Program rewrite(Program program, const Pattern& pattern) {
  size_t place = program.ops.size();
  while (place > 0) {
    const Facts facts(program);
    bool changed = false;
    while (place > 0 && !changed) {
      --place;
      const auto found = pattern(facts, program.ops[place]);
      if (!found) continue;
      const std::vector<int32_t> places = expression(facts, static_cast<int32_t>(place), found->operands);
      if (is_closed(facts, places) && stands_together(facts, places, found->operands))
        changed = replace_root(program, place, *found);
    }
    if (changed) program = eliminate_dead_code(std::move(program));
    place = std::min(place, program.ops.size());
  }
  return eliminate_dead_code(std::move(program));
}

std::optional<double> uniform(const Facts& facts, Value value) {
  const Op* op = facts.maker(value);
  while (op != nullptr && op->def->name != "fill") {
    if (!is_view(facts.program(), *op)) return std::nullopt;
    op = facts.maker(op->inputs[0]);
  }
  if (op == nullptr) return std::nullopt;
  return attribute(*op, "value").real();
}

bool about(double found, double wanted) { return std::abs(found - wanted) <= 1e-6 * std::abs(wanted); }

Scaled peel(const Facts& facts, Value value) {
  Scaled scaled{value};
  while (peel_once(facts, scaled)) {
  }
  return scaled;
}

Product multiply_out(const Facts& facts, Value value, const std::vector<Value>& whole) {
  Product product;
  multiply_out(facts, value, facts.type(value), whole, product);
  return product;
}

Value squared(const Facts& facts, Value value) {
  const Op* op = facts.maker(value);
  if (op == nullptr) return {};
  const bool product = op->def->name == "mul" && op->inputs[0] == op->inputs[1];
  return product || power_of(*op) == 2 ? op->inputs[0] : Value{};
}

}  // namespace plimsoll::program

#include "plimsoll/program/passes/fuse_activations.h"

#include <cmath>

#include "plimsoll/program/passes/pattern.h"

namespace plimsoll::program {
namespace {

constexpr double kRootHalf = 0.70710678118654752;       // sqrt(1/2)
constexpr double kRootTwoOverPi = 0.79788456080286536;  // sqrt(2/pi)
constexpr double kCubic = 0.044715;

// Whether the value is constant * x to this power.
bool is_power(const Facts& facts, Value value, Value x, double constant, size_t power) {
  const Product product = multiply_out(facts, value, {x});
  return about(product.constant, constant) && product.factors == std::vector<Value>(power, x);
}

// sqrt(2/pi) * (x + 0.044715 * x^3), as a sum.
bool is_cubic_sum(const Facts& facts, Value value, Value x) {
  const Scaled scaled = peel(facts, value);
  const Op* sum = facts.produced_by(scaled.base, "add");
  if (sum == nullptr || !about(scaled.scale, kRootTwoOverPi) || scaled.shift != 0) return false;
  for (const size_t i : {0, 1}) {
    if (sum->inputs[i] == x && is_power(facts, sum->inputs[1 - i], x, kCubic, 3)) return true;
  }
  return false;
}

// The same as a product, sqrt(2/pi) * x * (1 + 0.044715 * x^2).
bool is_cubic_product(const Facts& facts, Value value, Value x) {
  const Product product = multiply_out(facts, value, {x});
  if (product.factors.size() != 2 || !about(product.constant, kRootTwoOverPi)) return false;
  for (const size_t i : {0, 1}) {
    const Scaled other = peel(facts, product.factors[1 - i]);
    const bool fits = about(other.scale, kCubic) && about(other.shift, 1) && squared(facts, other.base) == x;
    if (product.factors[i] == x && fits) return true;
  }
  return false;
}

// How x is let through: the op that x times `value` (times a constant, which is to be `constant`) makes.
struct Gate {
  std::string_view op;
  double constant;
};

std::optional<Gate> gate_of(const Facts& facts, Value value, Value x) {
  if (const Op* sigmoid = facts.produced_by(value, "sigmoid"); sigmoid != nullptr && sigmoid->inputs[0] == x) {
    return Gate{"silu", 1};
  }
  const Scaled scaled = peel(facts, value);
  if (!about(scaled.scale, scaled.shift)) return std::nullopt;  // s * (1 + curve)
  const double constant = 0.5 / scaled.scale;
  if (const Op* erf = facts.produced_by(scaled.base, "erf")) {
    if (is_power(facts, erf->inputs[0], x, kRootHalf, 1)) return Gate{"gelu", constant};
  }
  if (const Op* tanh = facts.produced_by(scaled.base, "tanh")) {
    const Value inside = tanh->inputs[0];
    if (is_cubic_sum(facts, inside, x) || is_cubic_product(facts, inside, x)) return Gate{"gelu_tanh", constant};
  }
  return std::nullopt;
}

// Everything that the value is a product of, itself included: what x and its gate may be.
void add_parts(const Facts& facts, Value value, const Type& type, int depth, std::vector<Value>& parts) {
  if (facts.type(value) != type) return;
  parts.push_back(value);
  const Op* op = facts.maker(value);
  const bool product = op != nullptr && (op->def->name == "mul" || op->def->name == "affine" || op->def->name == "div");
  if (!product || depth == 0) return;
  for (const Value input : op->inputs) add_parts(facts, input, type, depth - 1, parts);
}

std::optional<Replacement> match_activation(const Facts& facts, const Op& root) {
  const std::string& name = root.def->name;
  if (name != "mul" && name != "affine" && name != "div") return std::nullopt;
  std::vector<Value> parts;
  add_parts(facts, root.outputs[0], facts.type(root.outputs[0]), 3, parts);
  for (const Value gated : parts) {
    for (const Value x : parts) {
      if (gated == x || x == root.outputs[0]) continue;
      const auto gate = gate_of(facts, gated, x);
      if (!gate) continue;
      const Product product = multiply_out(facts, root.outputs[0], {x, gated});
      const bool both = product.factors == std::vector{x, gated} || product.factors == std::vector{gated, x};
      if (both && about(product.constant, gate->constant)) return Replacement{gate->op, {x}};
    }
  }
  return std::nullopt;
}

}  // namespace

Program fuse_activations(Program program) { return rewrite(std::move(program), match_activation); }

}  // namespace plimsoll::program

#include "plimsoll/program/passes/fuse_norms.h"

#include "plimsoll/program/passes/pattern.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

// The operand of a reduction that keeps its dimensions and goes over the last ones, and the first of these.
struct Reduced {
  Value x;
  int axis;

  bool operator==(const Reduced&) const = default;
};

std::optional<Reduced> reduced_by(const Facts& facts, Value value, std::string_view name) {
  const Op* op = facts.produced_by(value, name);
  if (op == nullptr || !attribute(*op, "keepdims").flag()) return std::nullopt;
  const int rank = facts.type(op->inputs[0]).shape.rank();
  const AxisSet axes = reduced_axes(*OwnedOpCall(facts.program(), *op), rank);
  const int axis = rank - static_cast<int>(axes.count());
  for (int i = axis; i < rank; ++i) {
    if (!axes.test(static_cast<size_t>(i))) return std::nullopt;
  }
  return Reduced{op->inputs[0], axis};
}

// x less its mean.
std::optional<Reduced> centred(const Facts& facts, Value value) {
  const Op* difference = facts.produced_by(value, "sub");
  if (difference == nullptr) return std::nullopt;
  const auto mean = reduced_by(facts, difference->inputs[1], "mean");
  return mean && mean->x == difference->inputs[0] ? mean : std::nullopt;
}

// What the variance is of: the mean of the squares of x less its mean, or the op itself.
std::optional<Reduced> variance(const Facts& facts, Value value) {
  if (const Op* var = facts.produced_by(value, "var")) {
    return attribute(*var, "correction").dim() == 0 ? reduced_by(facts, value, "var") : std::nullopt;
  }
  const auto mean = reduced_by(facts, value, "mean");
  const Value difference = mean ? squared(facts, mean->x) : Value{};
  const auto of = difference ? centred(facts, difference) : std::nullopt;
  return of && of->axis == mean->axis ? of : std::nullopt;
}

std::optional<Reduced> mean_square(const Facts& facts, Value value) {
  const auto mean = reduced_by(facts, value, "mean");
  const Value x = mean ? squared(facts, mean->x) : Value{};
  return x ? std::optional(Reduced{x, mean->axis}) : std::nullopt;
}

// n = numerator / sqrt(spread + eps).
struct Quotient {
  Value numerator;
  Value spread;
  double eps;
};

std::optional<Quotient> quotient(const Facts& facts, Value numerator, Value under_root) {
  const Scaled scaled = peel(facts, under_root);
  if (scaled.scale != 1 || scaled.shift < 0) return std::nullopt;
  return Quotient{numerator, scaled.base, scaled.shift};
}

// x when the value is 1 / sqrt(x).
Value inverse_root(const Facts& facts, Value value) {
  if (const Op* rsqrt = facts.produced_by(value, "rsqrt")) return rsqrt->inputs[0];
  const Op* inverse = facts.produced_by(value, "reciprocal");
  const Op* division = facts.produced_by(value, "div");
  if (division != nullptr && uniform(facts, division->inputs[0]) == 1.0) inverse = division;
  const Op* root = inverse == nullptr ? nullptr : facts.produced_by(inverse->inputs.back(), "sqrt");
  return root == nullptr ? Value{} : root->inputs[0];
}

std::vector<Quotient> quotients(const Facts& facts, Value value) {
  std::vector<Quotient> found;
  const auto add = [&](const std::optional<Quotient>& one) {
    if (one) found.push_back(*one);
  };
  if (const Op* division = facts.produced_by(value, "div")) {
    const Op* root = facts.produced_by(division->inputs[1], "sqrt");
    if (root != nullptr) add(quotient(facts, division->inputs[0], root->inputs[0]));
  }
  if (const Op* product = facts.produced_by(value, "mul")) {
    for (const size_t i : {0, 1}) {
      const Value under_root = inverse_root(facts, product->inputs[1 - i]);
      if (under_root) add(quotient(facts, product->inputs[i], under_root));
    }
  }
  return found;
}

Replacement norm(std::string_view op, const Reduced& over, double eps) {
  return {op, {over.x}, {{"axis", int64_t{over.axis}}, {"eps", eps}}};
}

std::optional<Replacement> match_plain(const Facts& facts, Value value) {
  for (const Quotient& quotient : quotients(facts, value)) {
    const auto difference = centred(facts, quotient.numerator);
    if (difference && difference == variance(facts, quotient.spread)) {
      return norm("layer_norm", *difference, quotient.eps);
    }
    const auto square = mean_square(facts, quotient.spread);
    if (square && square->x == quotient.numerator) return norm("rms_norm", *square, quotient.eps);
  }
  return std::nullopt;
}

// A norm and, as the other operand of `op`, a parameter: the norm with that parameter.
template <class Inner>
std::optional<Replacement> match_with(const Facts& facts, Value value, std::string_view op, Inner inner) {
  const Op* made = facts.produced_by(value, op);
  for (const size_t i : {0, 1}) {
    auto found = made == nullptr ? std::nullopt : inner(facts, made->inputs[i]);
    if (!found) continue;
    found->operands.push_back(made->inputs[1 - i]);
    return found;
  }
  return std::nullopt;
}

std::optional<Replacement> match_weighted(const Facts& facts, Value value) {
  return match_with(facts, value, "mul", match_plain);
}

std::optional<Replacement> match_biased(const Facts& facts, Value value) {
  const auto found = match_with(facts, value, "add", match_weighted);
  return found && found->op == "layer_norm" ? found : std::nullopt;
}

// The largest form first. A parameter of another shape is caught by the rules of the op.
std::optional<Replacement> match_norm(const Facts& facts, const Op& root) {
  if (root.outputs.empty() || !root.outputs[0]) return std::nullopt;
  for (const auto& match : {match_biased, match_weighted, match_plain}) {
    if (auto found = match(facts, root.outputs[0])) return found;
  }
  return std::nullopt;
}

}  // namespace

Program fuse_norms(Program program) { return rewrite(std::move(program), match_norm); }

}  // namespace plimsoll::program

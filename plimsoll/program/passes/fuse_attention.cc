#include "plimsoll/program/passes/fuse_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "plimsoll/program/passes/pattern.h"

namespace plimsoll::program {
namespace {

const Dims kSwapped = {0, 1, 3, 2};  // the axes of a transpose of matrices

// What goes into the softmax.
struct Scores {
  Value products;  // q k', perhaps scaled
  Value mask = {};
};

std::optional<Scores> without_mask(const Facts& facts, Value scores, size_t place) {
  const Op* sum = facts.produced_by(scores, "add");
  if (sum == nullptr) return std::nullopt;
  const Value products = sum->inputs[place];
  if (facts.type(products) != facts.type(scores)) return std::nullopt;
  return Scores{products, sum->inputs[1 - place]};
}

std::optional<Scores> without_choice(const Facts& facts, Value scores) {
  const Op* where = facts.produced_by(scores, "where");
  if (where == nullptr || uniform(facts, where->inputs[2]) != -std::numeric_limits<double>::infinity()) {
    return std::nullopt;
  }
  return Scores{where->inputs[1], where->inputs[0]};
}

// All ways to read the operand of the softmax, with and without a mask.
std::vector<Scores> readings(const Facts& facts, Value scores) {
  std::vector<Scores> found = {{scores}};
  for (const auto& one :
       {without_mask(facts, scores, 0), without_mask(facts, scores, 1), without_choice(facts, scores)}) {
    if (one) found.push_back(*one);
  }
  return found;
}

// k as attention wants it, [batch, heads, keys, dim], of the second operand of the product.
struct Keys {
  Value value;
  bool swapped = false;  // its last two dimensions are still to be swapped
};

Keys keys_of(const Facts& facts, const Op& product) {
  const Value b = product.inputs[1];
  if (attribute(product, "transpose_b").flag()) return {b};
  const Op* transpose = facts.produced_by(b, "transpose");
  if (transpose != nullptr && attribute(*transpose, "axes").dims() == kSwapped) return {transpose->inputs[0]};
  return {b, true};
}

bool is_pure_scale(const Scaled& scaled) { return scaled.scale > 0 && scaled.shift == 0; }

// Fewer keys than columns of v.
bool scores_are_small(const Facts& facts, Value v) {
  const Dims& shape = facts.type(v).shape;
  return shape.rank() != 4 ||
         (shape[2].is_constant() && shape[3].is_constant() && shape[2].constant() < shape[3].constant());
}

// Keys and values of one head for all of the queries, which the products broadcast, are seen once for each.
void share_heads(const Facts& facts, Replacement& attention, bool swapped) {
  const Dims& q = facts.type(attention.operands[0]).shape;
  for (const size_t operand : {1, 2}) {
    Dims shape = facts.type(attention.operands[operand]).shape;
    if (q.rank() != 4 || shape.rank() != 4 || shape[1] != Dim(1) || q[1] == Dim(1)) continue;
    if (operand == 1 && swapped) std::swap(shape[2], shape[3]);
    shape[1] = q[1];
    attention.views.push_back({operand, "expand", {"shape", shape}});
  }
}

std::optional<Replacement> match_scores(const Facts& facts, const Scores& scores, Value v) {
  const Scaled whole = peel(facts, scores.products);
  const Op* product = facts.produced_by(whole.base, "matmul");
  if (product == nullptr || attribute(*product, "transpose_a").flag()) return std::nullopt;
  const Scaled q = peel(facts, product->inputs[0]);
  Keys keys = keys_of(facts, *product);
  const Scaled k = peel(facts, keys.value);
  if (!is_pure_scale(whole) || !is_pure_scale(q) || !is_pure_scale(k)) return std::nullopt;
  Replacement found{"attention", {q.base, k.base, v}, {{"scale", whole.scale * q.scale * k.scale}}};
  if (scores.mask) found.operands.push_back(scores.mask);
  if (keys.swapped) found.views.push_back({1, "transpose", {"axes", kSwapped}});
  share_heads(facts, found, keys.swapped);
  return found;
}

// The weights before what is no number in them became 0, as exporters do for queries that see no key.
Value with_nans(const Facts& facts, Value weights) {
  const Op* where = facts.produced_by(weights, "where");
  if (where == nullptr || uniform(facts, where->inputs[1]) != 0.0) return weights;
  const Value kept = where->inputs[2];
  const Op* is_nan = facts.produced_by(where->inputs[0], "ne");
  return is_nan != nullptr && is_nan->inputs[0] == kept && is_nan->inputs[1] == kept ? kept : weights;
}

using Accepts = bool (*)(const Facts&, Value mask);

std::optional<Replacement> match_attention(const Facts& facts, const Op& root, Accepts accepts) {
  if (root.def->name != "matmul" || attribute(root, "transpose_a").flag() || attribute(root, "transpose_b").flag()) {
    return std::nullopt;
  }
  const Value weights = with_nans(facts, root.inputs[0]);
  const Op* softmax = facts.produced_by(weights, "softmax");
  const Value v = root.inputs[1];
  if (softmax == nullptr) return std::nullopt;
  const bool may_be_nan = weights != root.inputs[0];  // then the gradient of the parts is no number, either
  if (!may_be_nan && scores_are_small(facts, v)) return std::nullopt;
  const Dim axis = attribute(*softmax, "axis").dim();
  if (axis != -1 && axis != 3) return std::nullopt;
  for (const Scores& scores : readings(facts, softmax->inputs[0])) {
    if (scores.mask && !accepts(facts, scores.mask)) continue;
    if (auto found = match_scores(facts, scores, v)) return found;
  }
  return std::nullopt;
}

}  // namespace

bool is_trained(const Facts& facts, Value value) {
  const std::vector<Value>& parameters = facts.program().parameters;
  std::set<int32_t> seen;
  std::vector<Value> open;
  const auto look_at = [&](Value one) {
    if (is_floating(facts.type(one).dtype) && seen.insert(one.index).second) open.push_back(one);
  };
  look_at(value);
  while (!open.empty()) {
    const Value one = open.back();
    open.pop_back();
    if (std::find(parameters.begin(), parameters.end(), one) != parameters.end()) return true;
    const Op* maker = facts.maker(one);
    if (maker == nullptr) continue;
    for (const Value input : maker->inputs) look_at(input);
  }
  return false;
}

Program fuse_attention(Program program) {
  return rewrite(std::move(program), [](const Facts& facts, const Op& root) {
    return match_attention(facts, root, [](const Facts&, Value) { return true; });
  });
}

Program fuse_differentiable_attention(Program program) {
  return rewrite(std::move(program), [](const Facts& facts, const Op& root) {
    return match_attention(facts, root, [](const Facts& all, Value mask) { return !is_trained(all, mask); });
  });
}

}  // namespace plimsoll::program

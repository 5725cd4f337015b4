#include "plimsoll/program/passes/fuse_norm_relus.h"

#include <algorithm>

#include "plimsoll/program/passes/facts.h"

namespace plimsoll::program {
namespace {

// Places of ops that become one, at the place of the ReLU or of the normalisation.
struct Chain {
  size_t norm = 0;
  std::optional<size_t> sum = {};
  size_t relu = 0;
  Value residual = {};
  size_t fused = 0;
};

bool reads(const Op& op, Value value) {
  return value && std::find(op.inputs.begin(), op.inputs.end(), value) != op.inputs.end();
}

// Whether the value is result 0 of an op of this name, and one op alone reads it.
bool is_only_for_next(const Facts& facts, Value value, std::string_view name) {
  const Op* op = facts.produced_by(value, name);
  return op != nullptr && op->outputs[0] == value && facts.readers(value) == 1 && !facts.is_output(value);
}

// The normalisation that makes the value, for one other op.
std::optional<size_t> norm_before(const Facts& facts, Value value) {
  if (!is_only_for_next(facts, value, "batch_norm")) return std::nullopt;
  const auto at = static_cast<size_t>(facts.produced_at(value));
  return facts.program().ops[at].inputs.size() == 3 ? std::optional(at) : std::nullopt;
}

// Nothing between them reads the normalisation's statistics.
bool can_move_to_relu(const Facts& facts, const Chain& chain) {
  const Program& program = facts.program();
  const Op& norm = program.ops[chain.norm];
  if (facts.is_overwritten(norm.inputs[0])) return false;
  for (size_t i = chain.norm + 1; i < chain.relu; ++i) {
    for (size_t k = 1; k < norm.outputs.size(); ++k) {
      if (reads(program.ops[i], norm.outputs[k])) return false;
    }
  }
  return true;
}

bool can_move_to_norm(const Facts& facts, const Chain& chain) {
  return !chain.residual || (facts.produced_at(chain.residual) < static_cast<int32_t>(chain.norm) &&
                             !facts.is_overwritten(chain.residual));
}

std::optional<Chain> placed(const Facts& facts, Chain chain) {
  const bool to_relu = can_move_to_relu(facts, chain);
  if (!to_relu && !can_move_to_norm(facts, chain)) return std::nullopt;
  chain.fused = to_relu ? chain.relu : chain.norm;
  return chain;
}

std::optional<Chain> match_relu(const Facts& facts, size_t place) {
  const Value x = facts.program().ops[place].inputs[0];
  if (const auto norm = norm_before(facts, x)) return placed(facts, {*norm, {}, place});
  if (!is_only_for_next(facts, x, "add")) return std::nullopt;
  const auto at = static_cast<size_t>(facts.produced_at(x));
  const Op& sum = facts.program().ops[at];
  // The one that is made last: what the other is added to is there already.
  const size_t last = facts.produced_at(sum.inputs[0]) > facts.produced_at(sum.inputs[1]) ? 0 : 1;
  for (const size_t i : {last, 1 - last}) {
    const Value residual = sum.inputs[1 - i];
    if (facts.type(residual) != facts.type(x) || residual == sum.inputs[i]) continue;
    const auto norm = norm_before(facts, sum.inputs[i]);
    if (!norm) continue;
    if (const auto chain = placed(facts, {*norm, at, place, residual})) return chain;
  }
  return std::nullopt;
}

void fuse_forward(Program& program, const Chain& chain) {
  const Op norm = program.ops[chain.norm];
  Op relu = program.ops[chain.relu];
  std::vector<Value> outputs = {relu.outputs[0]};
  for (size_t k = 1; k < 4; ++k) outputs.push_back(k < norm.outputs.size() ? norm.outputs[k] : Value{});
  outputs.push_back(relu.outputs.size() > 1 ? relu.outputs[1] : Value{});
  relu.inputs = norm.inputs;
  if (chain.residual) relu.inputs.push_back(chain.residual);
  relu.def = &op_table().get("batch_norm_relu");
  relu.attributes = norm.attributes;
  relu.outputs = std::move(outputs);
  program.ops[chain.fused] = std::move(relu);
  const size_t other = chain.fused == chain.relu ? chain.norm : chain.relu;
  std::vector<size_t> gone = {other};
  if (chain.sum) gone.insert(*chain.sum > other ? gone.begin() : gone.end(), *chain.sum);
  for (const size_t place : gone) program.ops.erase(program.ops.begin() + static_cast<int64_t>(place));
}

// The place of the normalisation's backward op that first reads what the ReLU's, at `place`, makes.
std::optional<size_t> match_backward(const Facts& facts, size_t place) {
  const Program& program = facts.program();
  const Op& mask = program.ops[place];
  if (attribute(mask, "set").real() != 1 || attribute(mask, "clear").real() != 0) return std::nullopt;
  const Value slope = mask.outputs[0];
  for (size_t i = place + 1; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!reads(op, slope)) continue;
    const bool fits = op.def->name == "batch_norm_backward" && op.inputs.size() == 5 && op.inputs[0] == slope &&
                      std::count(op.inputs.begin(), op.inputs.end(), slope) == 1;
    return fits ? std::optional(i) : std::nullopt;
  }
  return std::nullopt;
}

void fuse_backward(Program& program, size_t mask_place, size_t norm_place, bool keeps_slope) {
  const Op mask = program.ops[mask_place];
  Op& norm = program.ops[norm_place];
  norm.inputs.erase(norm.inputs.begin());
  norm.inputs.insert(norm.inputs.begin(), {mask.inputs[0], mask.inputs[1]});
  norm.outputs.resize(3);
  norm.outputs.push_back(keeps_slope ? mask.outputs[0] : Value{});
  norm.def = &op_table().get("batch_norm_relu_backward");
  program.ops.erase(program.ops.begin() + static_cast<int64_t>(mask_place));
}

// `place` moves back by the ops that are gone, none of which came after it.
bool try_forward(Program& program, const Facts& facts, size_t& place) {
  const auto chain = match_relu(facts, place);
  if (!chain) return false;
  fuse_forward(program, *chain);
  place -= chain->sum ? 2 : 1;
  return true;
}

bool try_backward(Program& program, const Facts& facts, size_t place) {
  const auto norm = match_backward(facts, place);
  const Value slope = program.ops[place].outputs[0];
  const bool keeps_slope = facts.readers(slope) > 1 || facts.is_output(slope);
  if (norm) fuse_backward(program, place, *norm, keeps_slope);
  return norm.has_value();
}

// Whether something from `place` on was fused; `place` is then where to look next.
bool fuse_next(Program& program, size_t& place) {
  const Facts facts(program);
  for (; place < program.ops.size(); ++place) {
    const std::string& name = program.ops[place].def->name;
    if (name == "relu" && try_forward(program, facts, place)) return true;
    if (name == "mask_backward" && try_backward(program, facts, place)) return true;
  }
  return false;
}

}  // namespace

Program fuse_norm_relus(Program program) {
  size_t place = 0;
  while (fuse_next(program, place)) {
  }
  return program;
}

}  // namespace plimsoll::program

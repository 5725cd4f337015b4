#include "plimsoll/program/passes/fuse_norm_relus.h"

#include <algorithm>

#include "plimsoll/program/passes/facts.h"

namespace plimsoll::program {
namespace {

// Places of ops that become two: statistics at the place of the normalisation, the rest at that of the ReLU.
struct Chain {
  size_t norm = 0;
  std::optional<size_t> sum = {};
  size_t relu = 0;
  Value residual = {};
};

bool reads(const Op& op, Value value) {
  return value && std::find(op.inputs.begin(), op.inputs.end(), value) != op.inputs.end();
}

// Whether the value is result 0 of an op of this name, and one op alone reads it.
bool is_only_for_next(const Facts& facts, Value value, std::string_view name) {
  const Op* op = facts.produced_by(value, name);
  return op != nullptr && op->outputs[0] == value && facts.readers(value) == 1 && !facts.is_output(value);
}

// The normalisation that makes the value, for one other op; what it normalises is still there later.
std::optional<size_t> norm_before(const Facts& facts, Value value) {
  if (!is_only_for_next(facts, value, "batch_norm")) return std::nullopt;
  const auto at = static_cast<size_t>(facts.produced_at(value));
  const Op& norm = facts.program().ops[at];
  const bool fits = norm.inputs.size() == 3 && !facts.is_overwritten(norm.inputs[0]);
  return fits ? std::optional(at) : std::nullopt;
}

std::optional<Chain> match_relu(const Facts& facts, size_t place) {
  const Value x = facts.program().ops[place].inputs[0];
  if (const auto norm = norm_before(facts, x)) return Chain{*norm, {}, place};
  if (!is_only_for_next(facts, x, "add")) return std::nullopt;
  const auto at = static_cast<size_t>(facts.produced_at(x));
  const Op& sum = facts.program().ops[at];
  // The one that is made last: what the other is added to is there already.
  const size_t last = facts.produced_at(sum.inputs[0]) > facts.produced_at(sum.inputs[1]) ? 0 : 1;
  for (const size_t i : {last, 1 - last}) {
    const Value residual = sum.inputs[1 - i];
    if (facts.type(residual) != facts.type(x) || residual == sum.inputs[i]) continue;
    if (const auto norm = norm_before(facts, sum.inputs[i])) return Chain{*norm, at, place, residual};
  }
  return std::nullopt;
}

// Result k of an op, made if nobody had asked for it.
Value result(Program& program, const Op& op, size_t k, const char* name) {
  if (k < op.outputs.size() && op.outputs[k]) return op.outputs[k];
  const Type& x = program[op.inputs[0]].type;
  ValueInfo info;
  info.type = {x.dtype == DType::f64 ? DType::f64 : DType::f32, {x.shape[1]}};
  info.name = program[op.outputs[0]].name + "." + name;
  info.category = Category::activation;
  info.storage = Value{static_cast<int32_t>(program.values.size())};
  program.values.push_back(std::move(info));
  return program.values.back().storage;
}

void fuse_forward(Program& program, const Chain& chain) {
  Op norm = program.ops[chain.norm];
  const Value mean = result(program, norm, 1, "mean");
  const Value rstd = result(program, norm, 2, "rstd");
  Op relu = program.ops[chain.relu];
  relu.inputs = {norm.inputs[0], mean, rstd, norm.inputs[1], norm.inputs[2]};
  if (chain.residual) relu.inputs.push_back(chain.residual);
  relu.def = &op_table().get("batch_norm_relu");
  relu.attributes = {};
  program.ops[chain.relu] = std::move(relu);
  norm.def = &op_table().get("batch_norm_statistics");
  norm.inputs.resize(1);
  norm.outputs = {mean, rstd, norm.outputs.size() > 3 ? norm.outputs[3] : Value{}};
  program.ops[chain.norm] = std::move(norm);
  if (chain.sum) program.ops.erase(program.ops.begin() + static_cast<int64_t>(*chain.sum));
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
  place -= chain->sum ? 1 : 0;
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

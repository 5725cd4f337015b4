#include "plimsoll/program/passes/fuse_epilogues.h"

#include <algorithm>

#include "plimsoll/program/ops/epilogue.h"
#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/facts.h"

namespace plimsoll::program {
namespace {

struct Epilogue {
  size_t product = 0;   // place of the product
  size_t follower = 0;  // and of the op that it takes in
  Value residual = {};  // what is added; nothing for a ReLU
};

bool has(const Op& op, std::string_view flag) { return op.def == epilogue_form(*op.def) && attribute(op, flag).flag(); }

// Whether the value is the whole result of a product, without a ReLU, that only one op reads.
bool can_take_more(const Facts& facts, Value value) {
  const Op* op = facts.maker(value);
  return op != nullptr && epilogue_form(*op->def) != nullptr && op->outputs[0] == value && !has(*op, "relu") &&
         facts.readers(value) == 1 && !facts.is_output(value);
}

std::optional<Epilogue> match_sum(const Facts& facts, size_t place) {
  const Op& sum = facts.program().ops[place];
  for (const size_t i : {0, 1}) {
    const Value c = sum.inputs[i];
    const Value residual = sum.inputs[1 - i];
    if (!can_take_more(facts, c) || has(*facts.maker(c), "residual")) continue;
    const bool there = facts.produced_at(residual) < facts.produced_at(c);
    if (there && facts.type(c) == facts.type(sum.outputs[0])) {
      return Epilogue{static_cast<size_t>(facts.produced_at(c)), place, residual};
    }
  }
  return std::nullopt;
}

// Whether nothing that takes memory stands between the two ops.
bool adjacent(const Program& program, size_t first, size_t second) {
  return std::all_of(program.ops.begin() + static_cast<int64_t>(first) + 1,
                     program.ops.begin() + static_cast<int64_t>(second),
                     [&](const Op& op) { return is_view(program, op); });
}

// Whether making the mask of the ReLU at the product instead leaves the peak as it is.
bool mask_may_move(const Facts& facts, size_t product, size_t relu) {
  const std::vector<Value>& operands = facts.program().ops[product].inputs;
  return adjacent(facts.program(), product, relu) && std::all_of(operands.begin(), operands.end(), [&](Value operand) {
           return facts.last_touch(operand) > static_cast<int32_t>(relu);
         });
}

std::optional<Epilogue> match_relu(const Facts& facts, size_t place) {
  const Op& relu = facts.program().ops[place];
  if (!can_take_more(facts, relu.inputs[0])) return std::nullopt;
  const auto product = static_cast<size_t>(facts.produced_at(relu.inputs[0]));
  if (relu.outputs[1] && !mask_may_move(facts, product, place)) return std::nullopt;
  return Epilogue{product, place};
}

std::optional<Epilogue> find(const Program& program, size_t& place) {
  const Facts facts(program);
  for (; place < program.ops.size(); ++place) {
    const std::string& name = program.ops[place].def->name;
    const auto found = name == "add"    ? match_sum(facts, place)
                       : name == "relu" ? match_relu(facts, place)
                                        : std::nullopt;
    if (found) return found;
  }
  return std::nullopt;
}

void fuse(Program& program, const Epilogue& epilogue) {
  Op& product = program.ops[epilogue.product];
  const Op& follower = program.ops[epilogue.follower];
  if (product.def != epilogue_form(*product.def)) {
    product.def = epilogue_form(*product.def);
    product.attributes.insert(product.attributes.end(), {Attribute(false), Attribute(false)});
  }
  const size_t last = product.attributes.size() - 1;  // residual and relu are the last two
  product.attributes[epilogue.residual ? last - 1 : last] = Attribute(true);
  if (epilogue.residual) product.inputs.push_back(epilogue.residual);
  product.outputs = follower.outputs;
  product.outputs.resize(2);
  program.ops.erase(program.ops.begin() + static_cast<int64_t>(epilogue.follower));
}

}  // namespace

Program fuse_epilogues(Program program) {
  size_t place = 0;
  while (const auto found = find(program, place)) fuse(program, *found);
  return eliminate_dead_code(std::move(program));
}

}  // namespace plimsoll::program

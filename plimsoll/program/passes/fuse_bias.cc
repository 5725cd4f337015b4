#include "plimsoll/program/passes/fuse_bias.h"

#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/pattern.h"

namespace plimsoll::program {
namespace {

// The op that takes a bias and does what this product does; nothing when there is none or it has one already.
std::string_view biased_form(const Facts& facts, const Op& product) {
  const std::string& name = product.def->name;
  if (product.inputs.size() != 2) return {};
  if (name == "conv" || name == "conv_transpose" || name == "linear") return name;
  const bool linear = name == "matmul" && attribute(product, "transpose_b").flag() &&
                      !attribute(product, "transpose_a").flag() && facts.type(product.inputs[1]).shape.rank() == 2;
  return linear ? "linear" : std::string_view();
}

// Whether a value of this shape has one element for each place along `axis` of y and is the same along all others.
bool varies_only_along(const Dims& shape, const Dims& y, int axis) {
  const int added = y.rank() - shape.rank();
  if (added > axis) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != (i + added == axis ? y[axis] : Dim(1))) return false;
  }
  return true;
}

// A sum of a product and its bias.
struct Found {
  size_t product;  // place of the product
  size_t sum;      // and of the sum
  std::string_view op;
  Value bias;
  Dim channels;
};

// The bias as it was before it was given more dimensions, which may have been done after the product.
Value without_reshapes(const Facts& facts, Value value) {
  for (const Op* reshape = facts.produced_by(value, "reshape"); reshape != nullptr;
       reshape = facts.produced_by(value, "reshape")) {
    value = reshape->inputs[0];
  }
  return value;
}

std::optional<Found> match(const Facts& facts, size_t place, size_t operand) {
  const Op& sum = facts.program().ops[place];
  const Value y = sum.outputs[0];
  const Value c = sum.inputs[operand];
  const Op* product = facts.maker(c);
  if (product == nullptr || facts.readers(c) != 1 || facts.type(c) != facts.type(y)) return std::nullopt;
  const std::string_view op = biased_form(facts, *product);
  const Dims& shape = facts.type(y).shape;
  const int axis = op == "linear" ? shape.rank() - 1 : 1;
  if (op.empty() || !varies_only_along(facts.type(sum.inputs[1 - operand]).shape, shape, axis)) return std::nullopt;
  const Value bias = without_reshapes(facts, sum.inputs[1 - operand]);
  const bool there = facts.produced_at(bias) < facts.produced_at(c) && !facts.program()[bias].view;
  if (!there) return std::nullopt;
  return Found{static_cast<size_t>(facts.produced_at(c)), place, op, bias, shape[axis]};
}

std::optional<Found> find(const Program& program, size_t& place) {
  const Facts facts(program);
  for (; place < program.ops.size(); ++place) {
    if (program.ops[place].def->name != "add") continue;
    for (const size_t operand : {0, 1}) {
      if (const auto found = match(facts, place, operand)) return found;
    }
  }
  return std::nullopt;
}

// The product makes the result of the sum; the sum is left without a reader.
void fuse(Program& program, Found found) {
  if (program[found.bias].type.shape != Dims{found.channels}) {
    found.bias = insert_op(program, found.product++, "reshape", {found.bias}, {{"shape", Dims{found.channels}}});
    ++found.sum;
  }
  Op& product = program.ops[found.product];
  Op& sum = program.ops[found.sum];
  const bool same_op = product.def->name == found.op;
  product.def = &op_table().get(found.op);
  if (!same_op) product.attributes.clear();
  product.inputs.push_back(found.bias);
  product.outputs = sum.outputs;
  program.ops.erase(program.ops.begin() + static_cast<int64_t>(found.sum));
}

}  // namespace

Program fuse_bias(Program program) {
  size_t place = 0;
  while (const auto found = find(program, place)) fuse(program, *found);
  return eliminate_dead_code(std::move(program));
}

}  // namespace plimsoll::program

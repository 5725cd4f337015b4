#include "plimsoll/program/passes/fold_constants.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/pattern.h"

namespace plimsoll::program {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: whole numbers up to here are f64 numbers

Array<double> scalar(DType dtype, double value) {
  Array<double> array(TensorSpec{dtype, Shape{}});
  if (is_floating(dtype)) {
    array.reals[0] = value;
  } else {
    array.ints[0] = static_cast<int64_t>(dtype == DType::boolean ? value != 0 : std::floor(value));
  }
  return array;
}

// What the op makes of one element of each operand.
double element_of(const Program& program, const Op& op, const std::vector<double>& operands) {
  std::vector<Array<double>> arrays;
  std::vector<Type> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    types.push_back({program[op.inputs[i]].type.dtype, {}});
    arrays.push_back(scalar(types.back().dtype, operands[i]));
  }
  std::vector<const Array<double>*> inputs;
  for (const Array<double>& array : arrays) inputs.push_back(&array);
  const std::vector<Type> results = {{program[op.outputs[0]].type.dtype, {}}};
  const OpCall call{*op.def, types, op.attributes, results};
  std::vector<Array<double>> made(op.outputs.size());
  made[0] = scalar(results[0].dtype, 0);
  std::vector<bool> wanted(made.size(), false);
  wanted[0] = true;
  Run<double> run{call, inputs, made, wanted};
  op.def->reference_f64(run);
  return is_floating(made[0].dtype) ? made[0].reals[0] : static_cast<double>(made[0].ints[0]);
}

bool makes_only_its_first(const Op& op) {
  return std::none_of(op.outputs.begin() + 1, op.outputs.end(), [](Value output) { return bool(output); });
}

void become(Op& op, std::string_view name, std::vector<Value> inputs, const std::vector<NamedAttribute>& attributes) {
  op.def = &op_table().get(name);
  op.inputs = std::move(inputs);
  op.outputs.resize(1);
  op.attributes = complete_attributes(*op.def, attributes);
}

class Folding {
 public:
  explicit Folding(Program& program) : program_(program), facts_(program), same_as_(program.values.size()) {}

  // Facts stay true: results keep their makers, and a maker that becomes a fill is seen as one.
  void run() {
    for (Op& op : program_.ops) {
      for (Value& input : op.inputs) {
        if (same_as_[at(input)]) input = same_as_[at(input)];
      }
      if (op.outputs.empty() || !makes_only_its_first(op)) continue;
      if (!fold_all(op)) fold_operand(op);
      skip_if_nothing(op);
    }
    move_storages(program_, same_as_);
  }

 private:
  bool fold_all(Op& op) {
    if (!op.def->traits.elementwise || program_[op.outputs[0]].view) return false;
    std::vector<double> operands;
    for (const Value input : op.inputs) {
      const auto value = uniform(facts_, input);
      if (!value) return false;
      operands.push_back(*value);
    }
    if (op.def->name == "affine" && !attribute(op, "divisor").dim().is_constant()) return false;
    const double value = element_of(program_, op, operands);
    const Type& type = program_[op.outputs[0]].type;
    if (!is_floating(type.dtype) && std::abs(value) > kExactIntegers) return false;
    become(op, "fill", {}, {{"value", value}, {"shape", type.shape}, {"dtype", type.dtype}});
    return true;
  }

  void fold_operand(Op& op) {
    if (op.inputs.size() != 2 || !is_floating(program_[op.outputs[0]].type.dtype)) return;
    if (const auto right = uniform(facts_, op.inputs[1])) return fold_right(op, op.inputs[0], *right);
    if (const auto left = uniform(facts_, op.inputs[0])) return fold_left(op, *left, op.inputs[1]);
  }

  void fold_right(Op& op, Value x, double c) {
    const std::string& name = op.def->name;
    if (!keeps_type(op, x)) return;
    if (name == "mul") return become(op, "affine", {x}, {{"scale", c}});
    if (name == "add") return become(op, "affine", {x}, {{"shift", c}});
    if (name == "sub") return become(op, "affine", {x}, {{"shift", -c}});
    if (name == "pow") return become(op, "pow_scalar", {x}, {{"exponent", c}});
    if (name == "div") fold_divisor(op, x, c);
  }

  void fold_left(Op& op, double c, Value x) {
    const std::string& name = op.def->name;
    if (!keeps_type(op, x)) return;
    if (name == "mul") return become(op, "affine", {x}, {{"scale", c}});
    if (name == "add") return become(op, "affine", {x}, {{"shift", c}});
    if (name == "sub") return become(op, "affine", {x}, {{"scale", -1.0}, {"shift", c}});
  }

  // The inverse of a power of two is exact; that of other numbers would round twice.
  void fold_divisor(Op& op, Value x, double c) {
    int exponent = 0;
    if (std::abs(std::frexp(c, &exponent)) == 0.5) become(op, "affine", {x}, {{"scale", 1 / c}});
  }

  bool keeps_type(const Op& op, Value x) const { return program_[x].type == program_[op.outputs[0]].type; }

  // x stands for its copy where that keeps no more memory than the copy would: a part of a large storage might.
  void skip_if_nothing(const Op& op) {
    if (!changes_nothing(op)) return;
    const Value x = op.inputs[0];
    const Value y = op.outputs[0];
    const bool whole = program_[x].storage == x && program_[y].storage == y;
    const bool fixed = !facts_.is_overwritten(x) && !facts_.is_overwritten(y);
    const bool plain = program_[y].category == Category::activation || program_[y].category == program_[x].category;
    if (whole && fixed && plain && !facts_.is_output(y)) same_as_[at(y)] = x;
  }

  static bool changes_nothing(const Op& op) {
    if (op.def->name == "pow_scalar") return attribute(op, "exponent").real() == 1;
    if (op.def->name != "affine") return false;
    return attribute(op, "scale").real() == 1 && attribute(op, "divisor").dim() == 1 &&
           attribute(op, "shift").real() == 0;
  }

  static size_t at(Value value) { return static_cast<size_t>(value.index); }

  Program& program_;
  const Facts facts_;
  std::vector<Value> same_as_;  // what readers of a value read in its place; nothing: itself
};

}  // namespace

Program fold_constants(Program program) {
  Folding(program).run();
  return eliminate_dead_code(std::move(program));
}

}  // namespace plimsoll::program

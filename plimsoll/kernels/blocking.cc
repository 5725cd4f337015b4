#include "plimsoll/kernels/blocking.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

using program::Op;
using program::Program;
using program::Value;
using Rule = Blocking::Rule;

const Blocking kNever;

bool is_listed(const std::vector<int>& list, size_t place) {
  return std::find(list.begin(), list.end(), static_cast<int>(place)) != list.end();
}

// Masks have one dimension and are in the order of the elements that they belong to.
bool is_mask(const program::ValueInfo& value) { return value.type.dtype == DType::u8 && value.type.shape.rank() == 1; }

// Numbers, also as bytes, and indices of pools.
bool has_blocks(const program::Type& type) {
  const bool is_number = type.dtype == DType::f32 || is_low_precision(type.dtype) || type.dtype == DType::i8;
  if (!is_number && type.dtype != DType::u8 && type.dtype != DType::i32) return false;
  const Shape shape = type.shape.shape();
  return shape.rank() >= 3 && shape.rank() <= 5 && shape[1] > 0 && shape[1] % kChannelBlock == 0 &&
         shape.elements() > 0;
}

// One value for each channel of a sample lies the same in blocks.
bool layouts_coincide(const Shape& shape) { return shape[0] * shape[1] == shape.elements(); }

class Analysis {
 public:
  Analysis(const Program& program, const KernelTable& table)
      : program_(program), table_(table), values_(program.values.size()), parents_(values_ + program.ops.size()) {
    std::iota(parents_.begin(), parents_.end(), size_t{0});
    find_movable();
    for (size_t op = 0; op < program.ops.size(); ++op) join(op);
    weigh();
  }

  // How an op may work on blocks. `never` when its shapes do not allow it.
  const Blocking& blocking(const Op& op) const {
    const KernelDef* def = table_.find(op.def->name);
    return def != nullptr && def->blocking.rule != Rule::never && fits(op, def->blocking) ? def->blocking : kNever;
  }

  bool is_like_result(const Op& op, const Blocking& how, size_t operand) const {
    return is_listed(how.like_result, operand) && shape(op.inputs[operand]) == shape(op.outputs[0]);
  }

  bool is_blocked(Value value) const {
    return movable_[index(value)] && !is_mask(program_[value]) && gains_[root(index(value))] > 0;
  }
  bool works_on_blocks(size_t op) const {
    return blocking(program_.ops[op]).rule == Rule::together && gains_[root(values_ + op)] > 0;
  }

 private:
  static size_t index(Value value) { return static_cast<size_t>(value.index); }
  Shape shape(Value value) const { return program_[value].type.shape.shape(); }
  int64_t bytes(Value value) const { return program_[value].type.spec().bytes(); }

  size_t root(size_t node) const {
    while (parents_[node] != node) node = parents_[node];
    return node;
  }

  // Values whose layout is nobody's business but that of the ops that make and read them.
  void find_movable() {
    movable_.assign(values_, false);
    for (size_t i = 0; i < values_; ++i) {
      const program::ValueInfo& info = program_.values[i];
      const Value value{static_cast<int32_t>(i)};
      movable_[i] = info.storage == value && !info.view &&
                    (is_mask(info) || (has_blocks(info.type) && !layouts_coincide(shape(value))));
    }
    for (const program::ValueInfo& info : program_.values) {
      if (info.storage != Value{static_cast<int32_t>(&info - program_.values.data())}) {
        movable_[index(info.storage)] = false;
      }
    }
    for (const auto* list : {&program_.inputs, &program_.parameters, &program_.state, &program_.outputs}) {
      for (const Value value : *list) movable_[index(value)] = false;
    }
  }

  bool fits(const Op& op, const Blocking& blocking) const {
    if (blocking.rule == Rule::each) return true;
    const auto allowed = [&](Value value) {
      if (is_mask(program_[value])) return true;
      return has_blocks(program_[value].type) && (!blocking.same_shape || shape(value) == shape(op.outputs[0]));
    };
    return for_all_listed(op, blocking, allowed);
  }

  template <class F>
  static bool for_all_listed(const Op& op, const Blocking& blocking, const F& holds) {
    for (const int i : blocking.inputs) {
      if (static_cast<size_t>(i) < op.inputs.size() && !holds(op.inputs[static_cast<size_t>(i)])) return false;
    }
    for (const int k : blocking.outputs) {
      const Value value = op.outputs[static_cast<size_t>(k)];
      if (value && !holds(value)) return false;
    }
    return true;
  }

  // An op that works on blocks or not as a whole, and all that it reads and makes so; or a result, and what is like it.
  void join(size_t op) {
    const Blocking& how = blocking(program_.ops[op]);
    if (how.rule == Rule::each) join_result(program_.ops[op], how);
    if (how.rule != Rule::together) return;
    for_all_listed(program_.ops[op], how, [&](Value value) {
      if (movable_[index(value)]) parents_[root(index(value))] = root(values_ + op);
      return true;
    });
  }

  void join_result(const Op& op, const Blocking& how) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!is_like_result(op, how, i) || !movable_[index(op.inputs[i])] || !movable_[index(op.outputs[0])]) continue;
      parents_[root(index(op.inputs[i]))] = root(index(op.outputs[0]));
    }
  }

  // Bytes that need not be copied when the values of a group are blocked, less those that must be then.
  void weigh() {
    gains_.assign(parents_.size(), 0);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      const Blocking& how = blocking(op);
      const auto weigh_one = [&](Value value, bool listed) {
        const bool movable = movable_[index(value)];
        if (is_mask(program_[value])) {
          // A mask cannot be reordered: who reads it must follow its order.
          if (movable && !(listed && how.rule == Rule::together)) gains_[root(index(value))] -= INT64_MAX / 4;
          if (!movable && listed && how.rule == Rule::together) gains_[root(values_ + i)] -= INT64_MAX / 4;
        } else if (movable) {
          if (!listed) gains_[root(index(value))] -= bytes(value);
          if (listed && how.gains) gains_[root(index(value))] += bytes(value);
        } else if (listed && how.rule == Rule::together && !layouts_coincide(shape(value))) {
          gains_[root(values_ + i)] -= bytes(value);
        }
      };
      for (size_t k = 0; k < op.inputs.size(); ++k) {
        if (is_like_result(op, how, k)) {
          weigh_like_result(op.inputs[k], op.outputs[0]);
        } else {
          weigh_one(op.inputs[k], is_listed(how.inputs, k));
        }
      }
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        if (op.outputs[k]) weigh_one(op.outputs[k], is_listed(how.outputs, k));
      }
    }
  }

  // Where only one of them can be blocked, it is at the price of a copy.
  void weigh_like_result(Value operand, Value result) {
    const bool movable = movable_[index(operand)];
    if (movable == movable_[index(result)]) return;
    gains_[root(index(movable ? operand : result))] -= bytes(operand);
  }

  const Program& program_;
  const KernelTable& table_;
  size_t values_;
  std::vector<size_t> parents_;  // of values, then of ops
  std::vector<bool> movable_;
  std::vector<int64_t> gains_;  // of roots
};

// Writes the program again, with reorders.
class Rewrite {
 public:
  Rewrite(Program program, const KernelTable& table)
      : given_(std::move(program)), analysis_(given_, table), reorder_(program::op_table().get("reorder")) {
    made_.program = given_;
    made_.program.ops.clear();
    for (size_t i = 0; i < given_.values.size(); ++i) {
      made_.values.push_back(analysis_.is_blocked(Value{static_cast<int32_t>(i)}));
      names_.insert(given_.values[i].name);
    }
  }

  Blocked run() && {
    for (size_t i = 0; i < given_.ops.size(); ++i) rewrite(i);
    return std::move(made_);
  }

 private:
  void rewrite(size_t place) {
    Op op = given_.ops[place];
    const Blocking& how = analysis_.blocking(op);
    const bool together = analysis_.works_on_blocks(place);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value value = op.inputs[i];
      const bool like_result = analysis_.is_like_result(op, how, i);
      if (like_result ? is_blocked(value) == is_blocked(op.outputs[0])
                      : !reorders(value, how, is_listed(how.inputs, i), together)) {
        continue;
      }
      op.inputs[i] = copy_of(value);
      emit(op.phase, value, op.inputs[i]);
    }
    std::vector<std::pair<Value, Value>> after;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const Value value = op.outputs[k];
      if (!value || !reorders(value, how, is_listed(how.outputs, k), together)) continue;
      op.outputs[k] = copy_of(value);
      after.emplace_back(op.outputs[k], value);
    }
    const program::Phase phase = op.phase;
    made_.program.ops.push_back(std::move(op));
    made_.ops.push_back(together);
    for (const auto& [from, to] : after) emit(phase, from, to);
  }

  bool is_blocked(Value value) const { return made_.values[static_cast<size_t>(value.index)]; }

  // Whether the op has the value in the other layout.
  bool reorders(Value value, const Blocking& how, bool listed, bool together) const {
    const program::ValueInfo& info = given_[value];
    if (is_mask(info) || !info.type.shape.is_constant()) return false;
    const bool blocked = is_blocked(value);
    if (!listed || how.rule == Rule::never) return blocked;
    if (how.rule == Rule::each) return false;
    return blocked != together && !layouts_coincide(info.type.shape.shape());
  }

  // A value of the same type in the other layout.
  Value copy_of(Value value) {
    const bool blocked = is_blocked(value);
    const auto place = static_cast<int32_t>(made_.program.values.size());
    program::ValueInfo info = given_[value];
    info.name = unique(fmt::format("{}.{}", info.name, blocked ? "plain" : "blocked"));
    info.storage = Value{place};
    info.view.reset();
    if (info.category != Category::gradient) info.category = Category::activation;
    made_.program.values.push_back(std::move(info));
    made_.values.push_back(!blocked);
    return {place};
  }

  std::string unique(const std::string& base) {
    std::string name = base;
    for (int number = 1; !names_.insert(name).second; ++number) name = fmt::format("{}.{}", base, number);
    return name;
  }

  void emit(program::Phase phase, Value from, Value to) {
    made_.program.ops.push_back({&reorder_, phase, {from}, {to}, {}});
    made_.ops.push_back(false);
  }

  Program given_;
  Analysis analysis_;
  const program::OpDef& reorder_;
  Blocked made_;
  std::set<std::string> names_;
};

}  // namespace

Blocked without_blocks(Program program) {
  const size_t values = program.values.size();
  const size_t ops = program.ops.size();
  return {std::move(program), std::vector<bool>(values), std::vector<bool>(ops)};
}

Blocked block_channels(Program program, const KernelTable& table) { return Rewrite(std::move(program), table).run(); }

}  // namespace plimsoll::kernels

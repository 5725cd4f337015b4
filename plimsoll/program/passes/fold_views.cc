#include "plimsoll/program/passes/fold_views.h"

#include <algorithm>

#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/facts.h"

namespace plimsoll::program {
namespace {

// The axes of one transpose that does what `first` and then `second` do.
Dims composed(const Dims& first, const Dims& second) {
  Dims axes;
  for (const Dim axis : second) axes.push_back(first[static_cast<int>(axis.constant())]);
  return axes;
}

bool folds(const Op& op) {
  return op.def->name == "reshape" || op.def->name == "transpose" || op.def->name == "expand";
}

class Folding {
 public:
  explicit Folding(Program& program) : program_(program), facts_(program), same_as_(program.values.size()) {}

  void run() {
    for (Op& op : program_.ops) visit(op);
    move_storages(program_, same_as_);
  }

 private:
  void visit(Op& op) {
    for (Value& input : op.inputs) {
      if (same_as_[at(input)]) input = same_as_[at(input)];
    }
    if (op.inputs.empty() || op.outputs.size() != 1) return;
    if (folds(op)) fold_into_one(op);
    const Value x = op.inputs[0];
    if (!facts_.is_output(op.outputs[0]) && shows_as_it_is(x, op.outputs[0])) same_as_[at(op.outputs[0])] = x;
  }

  // The same bytes, of the same type, in the same order.
  bool shows_as_it_is(Value x, Value y) const {
    const ValueInfo& one = program_[x];
    const ValueInfo& other = program_[y];
    return other.view && other.storage == one.storage && one.type == other.type && layout(one) == layout(other);
  }

  void fold_into_one(Op& op) {
    const int32_t place = facts_.produced_at(op.inputs[0]);
    if (place < 0) return;
    Op& inner = program_.ops[static_cast<size_t>(place)];
    if (inner.def != op.def) return;
    Op both = op;
    both.inputs = inner.inputs;
    if (op.def->name == "transpose") both.attributes[0] = composed(inner.attributes[0].dims(), op.attributes[0].dims());
    if (op.def->name == "reshape") both.attributes[0] = program_[op.outputs[0]].type.shape;  // for -1 is of the operand
    if (keeps_layout(both)) {
      op = std::move(both);
    } else if (program_[op.outputs[0]].view && !program_[inner.outputs[0]].view) {
      copy_at_once(inner, op, both);
    }
  }

  bool keeps_layout(const Op& op) const {
    const ValueInfo& x = program_[op.inputs[0]];
    const ValueInfo& y = program_[op.outputs[0]];
    const auto view = op.def->view_of(*OwnedOpCall(program_, op), layout(x), 0);
    return view && y.view && y.storage == x.storage && *view == *y.view;
  }

  // The inner op had to copy, and the outer one shows the copy: the inner op makes that shape from the start.
  void copy_at_once(Op& inner, Op& outer, const Op& both) {
    const Value copy = inner.outputs[0];
    const Value shown = outer.outputs[0];
    if (readers_now(copy) != 1 || facts_.is_output(copy) || facts_.is_overwritten(copy)) return;
    if (both.def->view_of(*OwnedOpCall(program_, both), layout(program_[both.inputs[0]]), 0)) return;
    if (layout(program_[shown]) != Layout{0, row_major(program_[shown].type.shape)}) return;
    const Phase phase = inner.phase;
    inner = both;
    inner.phase = phase;
    outer.outputs[0] = copy;  // nobody reads it now
    outer.inputs[0] = shown;
    outer.attributes[0] = program_[copy].type.shape;
    for (ValueInfo& value : program_.values) {
      if (value.storage == copy) value.storage = shown;
    }
    program_[shown].view.reset();
    program_[copy].view = Layout{0, row_major(program_[copy].type.shape)};
  }

  // Facts are of the program as it was; folding has given some values more readers, and will where one stands for
  // others.
  int64_t readers_now(Value value) const {
    int64_t readers = std::count(same_as_.begin(), same_as_.end(), value);
    for (const Op& op : program_.ops) readers += std::count(op.inputs.begin(), op.inputs.end(), value);
    return readers;
  }

  static size_t at(Value value) { return static_cast<size_t>(value.index); }

  Program& program_;
  const Facts facts_;
  std::vector<Value> same_as_;  // what readers of a value read in its place; nothing: itself
};

}  // namespace

Program fold_views(Program program) {
  Folding(program).run();
  return eliminate_dead_code(std::move(program));
}

}  // namespace plimsoll::program

#include "plimsoll/program/passes/sink_ops.h"

#include <algorithm>
#include <numeric>

#include "plimsoll/program/op.h"
#include "plimsoll/program/ops/collective.h"

namespace plimsoll::program {
namespace {

constexpr int64_t kTooSmallToMatter = 4096;  // bytes of an operand: a step has few such, and losses are some of them

// Ops from the last to the first, so that readers have their place before the ops that they read.
class Delays {
 public:
  explicit Delays(const Program& program)
      : program_(program),
        place_(program.ops.size()),
        first_reader_(program.values.size(), end()),
        first_writer_(program.values.size(), end()),
        last_use_(program.values.size(), -1) {
    for (const auto* sources : {&program.inputs, &program.parameters, &program.state}) {
      for (const Value source : *sources) last_use_[at(source)] = end();
    }
    for (const Value output : program.outputs) last_use_[storage(output)] = end();
  }

  // For each op the one that it goes before, which stays where it is; itself where it does, and the number of ops for
  // the end.
  std::vector<int32_t> run() && {
    for (int32_t op = end(); op-- > 0;) {
      place_[static_cast<size_t>(op)] = op;
      const int32_t wanted = wanted_before(op);
      if (wanted > op && saves(op, wanted)) place_[static_cast<size_t>(op)] = wanted;
      enter(op, place_[static_cast<size_t>(op)]);
    }
    return std::move(place_);
  }

 private:
  static size_t at(Value value) { return static_cast<size_t>(value.index); }
  size_t storage(Value value) const { return at(program_[value].storage); }
  int32_t end() const { return static_cast<int32_t>(program_.ops.size()); }
  const Op& op_at(int32_t op) const { return program_.ops[static_cast<size_t>(op)]; }
  int64_t bytes(Value owner) const { return program_[owner].type.spec().bytes(); }

  // The first op that reads what this one makes, or writes over what this one reads.
  int32_t wanted_before(int32_t op) const {
    if (!op_at(op).def->overwrites.empty() || is_collective(*op_at(op).def)) return op;
    int32_t wanted = end();
    for (const Value output : op_at(op).outputs) {
      if (output) wanted = std::min(wanted, first_reader_[at(output)]);
    }
    for (const Value input : op_at(op).inputs) wanted = std::min(wanted, first_writer_[storage(input)]);
    return wanted;
  }

  bool saves(int32_t op, int32_t wanted) const {
    const int64_t made = produced_bytes(op);
    return made == 0 || made > longer_bytes(op, wanted);
  }

  // Nothing for a view.
  int64_t produced_bytes(int32_t op) const {
    int64_t sum = 0;
    for (const Value output : op_at(op).outputs) {
      if (output && program_[output].storage == output) sum += bytes(output);
    }
    return sum;
  }

  // Of operands that would have to stay until then.
  int64_t longer_bytes(int32_t op, int32_t wanted) const {
    std::vector<Value> owners;
    for (const Value input : op_at(op).inputs) {
      const Value owner = program_[input].storage;
      if (last_use_[at(owner)] >= wanted || std::find(owners.begin(), owners.end(), owner) != owners.end()) continue;
      owners.push_back(owner);
    }
    int64_t sum = 0;
    for (const Value owner : owners) sum += bytes(owner) < kTooSmallToMatter ? 0 : bytes(owner);
    return sum;
  }

  void enter(int32_t op, int32_t when) {
    const bool is_view = produced_bytes(op) == 0 && op_at(op).def->overwrites.empty();
    for (const Value input : op_at(op).inputs) {
      first_reader_[at(input)] = std::min(first_reader_[at(input)], when);
      if (!is_view) last_use_[storage(input)] = std::max(last_use_[storage(input)], when);
    }
    for (const Overwrite& overwrite : op_at(op).def->overwrites) {
      int32_t& writer = first_writer_[storage(op_at(op).inputs[static_cast<size_t>(overwrite.input)])];
      writer = std::min(writer, when);
    }
  }

  const Program& program_;
  std::vector<int32_t> place_;
  std::vector<int32_t> first_reader_;  // by value
  std::vector<int32_t> first_writer_;  // by storage
  std::vector<int32_t> last_use_;      // by storage
};

}  // namespace

Program sink_ops(Program program) {
  const std::vector<int32_t> before = Delays(program).run();
  std::vector<size_t> order(before.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Those that wait for an op go right before it, in their own order.
  std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t other) { return before[one] < before[other]; });
  std::vector<Op> ordered;
  ordered.reserve(order.size());
  for (const size_t op : order) ordered.push_back(std::move(program.ops[op]));
  program.ops = std::move(ordered);
  return program;
}

}  // namespace plimsoll::program

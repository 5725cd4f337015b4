#include "plimsoll/plan/step_graph.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/rewrite.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/ops/spilled.h"

namespace plimsoll::plan {
namespace {

using program::Op;
using program::Program;
using program::Value;
using program::ValueInfo;

constexpr int32_t kNone = -1;

class GraphMaker {
 public:
  GraphMaker(const kernels::Lowered& lowered, std::span<const double> seconds, const SpillOptions& spill)
      : lowered_(lowered),
        spill_(spill),
        program_(lowered.program),
        seconds_(seconds),
        place_(program_.values.size(), kNone),
        overwritten_at_(program_.values.size()) {}

  StepGraph make() && {
    graph_.spill = spill_;
    for (const auto* list : {&program_.inputs, &program_.parameters, &program_.state}) {
      for (const Value value : *list) graph_.resident_bytes += aligned(value);
    }
    for (const Value value : program::spilled_values(program_)) graph_.resident_bytes -= aligned(value);  // in a file
    for (size_t op = 0; op < program_.ops.size(); ++op) {
      if (takes_a_step(lowered_, static_cast<int32_t>(op))) add_node(static_cast<int32_t>(op));
    }
    for (const Value output : program_.outputs) keep(output);
    for (size_t time = 0; time < graph_.nodes.size(); ++time) find_repeatable(static_cast<int32_t>(time));
    for (GraphStorage& storage : graph_.storages) finish(storage);
    return std::move(graph_);
  }

 private:
  static size_t at(Value value) { return static_cast<size_t>(value.index); }
  const Op& op_of(const GraphNode& node) const { return program_.ops[static_cast<size_t>(node.op)]; }
  int64_t aligned(Value owner) const { return align_up(program_[owner].type.spec().bytes(), lowered_.alignment); }
  int32_t place_of(Value value) const { return place_[at(program_[value].storage)]; }
  GraphStorage& storage(int32_t place) { return graph_.storages[static_cast<size_t>(place)]; }

  void add_node(int32_t place) {
    const Op& op = program_.ops[static_cast<size_t>(place)];
    GraphNode node;
    node.op = place;
    node.scratch_bytes = align_up(lowered_.ops[static_cast<size_t>(place)].kernel.scratch_bytes, lowered_.alignment);
    node.seconds = seconds_[static_cast<size_t>(place)];
    node.phase = op.phase;
    const auto time = static_cast<int32_t>(graph_.nodes.size());
    for (const Value input : op.inputs) read(input, time, node);
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.outputs[k]) make(op, k, time, node);
    }
    find_in_place(op, node);
    graph_.nodes.push_back(std::move(node));
  }

  void read(Value input, int32_t time, GraphNode& node) {
    const int32_t place = place_of(input);
    if (place == kNone || std::find(node.reads.begin(), node.reads.end(), place) != node.reads.end()) return;
    node.reads.push_back(place);
    storage(place).events.push_back(time);
  }

  void make(const Op& op, size_t k, int32_t time, GraphNode& node) {
    const Value output = op.outputs[k];
    const Value owner = program_[output].storage;
    if (owner != output) {
      overwritten_at_[at(owner)].push_back(time);
    } else {
      place_[at(owner)] = static_cast<int32_t>(graph_.storages.size());
      node.makes.push_back(place_[at(owner)]);
      GraphStorage made;
      made.owner = owner;
      made.bytes = aligned(owner);
      made.maker = time;
      made.optional = op.def->is_optional_output(k);
      made.events = {time};
      graph_.storages.push_back(std::move(made));
    }
  }

  void keep(Value output) {
    if (place_of(output) != kNone) storage(place_of(output)).kept = true;
  }

  // Operands whose memory result 0 may take: all that the op reads of it must be the whole of it and replaceable.
  void find_in_place(const Op& op, GraphNode& node) {
    if (op.def->in_place.empty() || program_[op.outputs[0]].storage != op.outputs[0]) return;
    for (const int i : op.def->in_place) {
      if (static_cast<size_t>(i) >= op.inputs.size()) continue;
      const Value owner = program_[op.inputs[static_cast<size_t>(i)]].storage;
      const int32_t place = place_of(owner);
      if (place != kNone && has_bytes_of(op.outputs[0], owner) && is_replaceable(op, owner)) {
        node.in_place.push_back(place);
      }
    }
  }

  bool has_bytes_of(Value a, Value b) const {
    return program_[a].type.spec().bytes() == program_[b].type.spec().bytes();
  }

  bool is_replaceable(const Op& op, Value owner) const {
    const std::vector<int>& allowed = op.def->in_place;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (program_[op.inputs[i]].storage != owner) continue;
      if (std::find(allowed.begin(), allowed.end(), static_cast<int>(i)) == allowed.end()) return false;
      if (!is_whole(program_[op.inputs[i]])) return false;
    }
    return std::none_of(op.outputs.begin(), op.outputs.end(),
                        [&](Value output) { return output && program_[output].storage == owner; });
  }

  bool is_whole(const ValueInfo& value) const {
    if (!value.view) return true;
    return value.view->offset == 0 && value.view->strides == row_major(value.type.shape) &&
           value.type.bytes() == program_[value.storage].type.bytes();
  }

  // An op can run again when all it makes is its own and while what it reads is as it was.
  void find_repeatable(int32_t time) {
    GraphNode& node = graph_.nodes[static_cast<size_t>(time)];
    const Op& op = op_of(node);
    node.repeatable = op.def->overwrites.empty();
    for (const Value output : op.outputs) {
      if (output && (program_[output].storage != output || !overwritten_at_[at(output)].empty())) {
        node.repeatable = false;
      }
    }
    node.repeatable_until = INT32_MAX;
    for (const Value input : op.inputs) {
      node.repeatable_until = std::min(node.repeatable_until, overwritten_from(program_[input].storage, time));
    }
  }

  // The first node from `time` on that does so: what was overwritten before is what the node at that time reads.
  int32_t overwritten_from(Value owner, int32_t time) const {
    const std::vector<int32_t>& times = overwritten_at_[at(owner)];
    const auto found = std::lower_bound(times.begin(), times.end(), time);
    return found == times.end() ? INT32_MAX : *found;
  }

  void finish(GraphStorage& storage) {
    storage.droppable =
        graph_.nodes[static_cast<size_t>(storage.maker)].repeatable && !storage.kept && storage.bytes > 0;
    storage.spillable = graph_.can_spill() && storage.bytes >= std::max<int64_t>(1, spill_.least_bytes) &&
                        !storage.kept && overwritten_at_[at(storage.owner)].empty();
    storage.first_interval = graph_.intervals;
    graph_.intervals += static_cast<int32_t>(storage.events.size());
    const auto place = static_cast<int32_t>(&storage - graph_.storages.data());
    graph_.storage_of_interval.resize(static_cast<size_t>(graph_.intervals), place);
  }

  const kernels::Lowered& lowered_;
  const SpillOptions& spill_;
  const Program& program_;
  std::span<const double> seconds_;
  StepGraph graph_;
  std::vector<int32_t> place_;                        // by owner: in graph_.storages
  std::vector<std::vector<int32_t>> overwritten_at_;  // by owner: nodes that do so, in order
};

}  // namespace

int32_t StepGraph::interval_at(int32_t storage, int32_t time) const {
  const GraphStorage& asked = storages[static_cast<size_t>(storage)];
  const auto next = std::lower_bound(asked.events.begin(), asked.events.end(), time);
  return asked.first_interval + std::max(0, static_cast<int32_t>(next - asked.events.begin()) - 1);
}

int32_t StepGraph::begin_of(int32_t interval) const {
  const GraphStorage& storage = storages[static_cast<size_t>(storage_of_interval[static_cast<size_t>(interval)])];
  return storage.events[static_cast<size_t>(interval - storage.first_interval)];
}

double StepGraph::seconds() const {
  double sum = 0;
  for (const GraphNode& node : nodes) sum += node.seconds;
  return sum;
}

int64_t StepGraph::working_bytes(int32_t node) const {
  const GraphNode& wanted = nodes[static_cast<size_t>(node)];
  int64_t bytes = wanted.scratch_bytes;
  for (const int32_t place : wanted.reads) bytes += storages[static_cast<size_t>(place)].bytes;
  for (const int32_t place : wanted.makes) bytes += storages[static_cast<size_t>(place)].bytes;
  if (!wanted.in_place.empty()) bytes -= storages[static_cast<size_t>(wanted.makes[0])].bytes;
  return bytes;
}

StepGraph make_step_graph(const kernels::Lowered& lowered, std::span<const double> seconds, const SpillOptions& spill) {
  return GraphMaker(lowered, seconds, spill).make();
}

}  // namespace plimsoll::plan

#include "plimsoll/models/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"

namespace plimsoll::models {
namespace {

using program::Op;
using program::OwnedOpCall;
using program::Program;

// The channels of a value: along a dimension, each with so many neighbouring elements.
struct Place {
  int group = -1;
  int axis = 1;
  int64_t repeat = 1;
};

class GroupFinder {
 public:
  explicit GroupFinder(const Program& program) : program_(program), places_(program.values.size()) {
    for (const auto* list : {&program.parameters, &program.state}) {
      for (const Value value : *list) held_.insert(value.index);
    }
  }

  std::vector<ChannelGroup> find() {
    for (const Op& op : program_.ops) follow(op);
    for (const Value output : program_.outputs) keep(output);
    keep_what_others_read();
    std::map<int, ChannelGroup> found;
    for (const Counted& counted : along_) {
      const int group = root(counted.group);
      if (kept_.contains(group)) continue;
      ChannelGroup& one = found[group];
      one.channels = channels_[static_cast<size_t>(group)];
      if (std::find(one.along.begin(), one.along.end(), counted.along) == one.along.end()) {
        one.along.push_back(counted.along);
      }
    }
    std::vector<ChannelGroup> groups;
    for (auto& [group, one] : found) groups.push_back(std::move(one));
    return groups;
  }

 private:
  struct Counted {
    int group;
    Value value;
    ChannelGroup::Along along;
  };

  void follow(const Op& op) {
    const std::string& name = op.def->name;
    const OwnedOpCall call(program_, op);
    if (name == "conv") return follow_conv(op, *call);
    if (name == "linear") return follow_linear(op);
    if (name == "batch_norm_inference") return follow_norm(op);
    if (name == "reshape") return follow_reshape(op);
    if (name.find("_pool") != name.npos) return pass(op);
    if (op.def->traits.elementwise) return follow_elementwise(op);
    for (const Value input : op.inputs) keep(input);
  }

  void follow_conv(const Op& op, const program::OpCall& call) {
    const Value x = op.inputs[0];
    const program::Dims& w = call.shape(1);
    const int64_t parts = call.integer("groups");
    if (parts == 1) {
      add(x, op.inputs[1], 1);
      return produce(op, w[0].constant());
    }
    const bool by_channel = w[1] == 1 && w[0] == parts && place(x).group >= 0;
    if (!by_channel) {
      keep(x);
      return;
    }
    places_[index(op.outputs[0])] = place(x);
    for (size_t i = 1; i < op.inputs.size(); ++i) add(x, op.inputs[i], 0, i == 1);
  }

  void follow_linear(const Op& op) {
    const Value x = op.inputs[0];
    const int last = program_[x].type.shape.rank() - 1;
    if (place(x).group >= 0 && place(x).axis != last) keep(x);
    if (held_.contains(op.inputs[1].index)) {
      add(x, op.inputs[1], 1);
      return produce(op, program_[op.inputs[1]].type.shape[0].constant(),
                     program_[op.outputs[0]].type.shape.rank() - 1);
    }
    keep(x);
  }

  // Channels of its own, along dimension 0 of the weights and the bias.
  void produce(const Op& op, int64_t channels, int axis = 1) {
    const int group = static_cast<int>(parents_.size());
    parents_.push_back(group);
    channels_.push_back(channels);
    places_[index(op.outputs[0])] = {group, axis, 1};
    for (size_t i = 1; i < op.inputs.size(); ++i) add(op.outputs[0], op.inputs[i], 0, i == 1);
  }

  void follow_norm(const Op& op) {
    if (place(op.inputs[0]).group < 0) return;
    places_[index(op.outputs[0])] = place(op.inputs[0]);
    for (size_t i = 1; i < op.inputs.size(); ++i) add(op.inputs[0], op.inputs[i], 0);
  }

  // An image as one line for each sample.
  void follow_reshape(const Op& op) {
    const Place from = place(op.inputs[0]);
    if (from.group < 0) return;
    const program::Dims& x = program_[op.inputs[0]].type.shape;
    const program::Dims& y = program_[op.outputs[0]].type.shape;
    const program::Dim pixels = program::Dims(std::span(x.begin() + 2, x.end())).elements();
    const bool flattens = from.axis == 1 && y.rank() == 2 && y[0] == x[0] && pixels.is_constant();
    if (!flattens) return keep(op.inputs[0]);
    places_[index(op.outputs[0])] = {from.group, 1, from.repeat * pixels.constant()};
  }

  void pass(const Op& op) { places_[index(op.outputs[0])] = place(op.inputs[0]); }

  void follow_elementwise(const Op& op) {
    const program::Dims& y = program_[op.outputs[0]].type.shape;
    Place common;
    for (const Value input : op.inputs) {
      const bool is_scalar = program_[input].type.shape.elements() == 1;
      if (is_scalar) continue;
      const Place one = place(input);
      const bool fits = one.group >= 0 && program_[input].type.shape == y &&
                        (common.group < 0 || (common.axis == one.axis && common.repeat == one.repeat));
      if (!fits) {
        for (const Value other : op.inputs) keep(other);
        return;
      }
      if (common.group >= 0) unite(common.group, one.group);
      common = one;
    }
    places_[index(op.outputs[0])] = common;
  }

  // The parameter has the channels of `of` along a dimension.
  void add(Value of, Value parameter, int axis, bool produces = false) {
    const Place channels = place(of);
    if (channels.group < 0) return;
    if (!parameter || !held_.contains(parameter.index)) return keep(of);
    along_.push_back(
        {channels.group, parameter, {program_[parameter].name, axis, axis == 0 ? 1 : channels.repeat, produces}});
  }

  // A parameter that is read more often than was understood, or that has two groups along one dimension.
  void keep_what_others_read() {
    std::map<int32_t, int64_t> reads;
    for (const Op& op : program_.ops) {
      for (const Value input : op.inputs) {
        if (input) ++reads[program_[input].storage.index];
      }
    }
    for (const Counted& one : along_) {
      if (reads[one.value.index] != 1) kept_.insert(root(one.group));
    }
  }

  static size_t index(Value value) { return static_cast<size_t>(value.index); }
  Place place(Value value) const { return value ? places_[index(value)] : Place(); }
  void keep(Value value) {
    if (place(value).group >= 0) kept_.insert(root(place(value).group));
  }
  int root(int group) const {
    while (parents_[static_cast<size_t>(group)] != group) group = parents_[static_cast<size_t>(group)];
    return group;
  }
  void unite(int a, int b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    parents_[static_cast<size_t>(b)] = a;
    if (kept_.contains(b)) kept_.insert(a);
  }

  const Program& program_;
  std::vector<Place> places_;  // of each value
  std::set<int32_t> held_;     // parameters and state
  std::vector<int> parents_;   // of groups, a forest
  std::vector<int64_t> channels_;
  std::set<int> kept_;  // groups that stay whole, by their roots at the time
  std::vector<Counted> along_;
};

void set_attribute(Op& op, std::string_view name, const program::Attribute& value) {
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    if (op.def->attributes[i].name == name) op.attributes[i] = value;
  }
}

// Attributes that speak of sizes: what a flattened image has, and convolutions of single channels.
void adjust(const Program& program, Op& op) {
  const OwnedOpCall call(program, op);
  if (op.def->name == "reshape" && call->dims("shape").rank() == 2) {
    set_attribute(op, "shape", program::Dims{call->dims("shape")[0], -1});
  }
  if (op.def->name == "conv" && call->integer("groups") > 1 && call->shape(1)[1] == 1) {
    set_attribute(op, "groups", call->shape(0)[1].constant());
  }
}

void infer_again(Program& program, Op& op) {
  adjust(program, op);
  const std::vector<program::Type> types = op.def->infer(*OwnedOpCall(program, op));
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    if (op.outputs[k]) program[op.outputs[k]].type = types[k];
  }
  if (op.def->name == "reshape") set_attribute(op, "shape", types[0].shape);
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    program::ValueInfo* made = op.outputs[k] ? &program[op.outputs[k]] : nullptr;
    if (made == nullptr || !made->view) continue;
    const OwnedOpCall call(program, op);
    made->view = op.def->view_of(*call, program::layout(program[op.inputs[0]]), static_cast<int>(k));
    if (!made->view) throw ArgumentError(fmt::format("{} %{} is no view any more", op.def->name, made->name));
  }
}

}  // namespace

std::vector<ChannelGroup> find_channel_groups(const Program& inference) { return GroupFinder(inference).find(); }

Program with_parameter_shapes(Program program, const ParameterShapes& shapes) {
  bool changes = false;
  for (const auto* list : {&program.parameters, &program.state}) {
    for (const Value value : *list) {
      const auto found = shapes.find(program[value].name);
      if (found == shapes.end()) continue;
      const program::Dims shape(found->second);
      changes = changes || shape != program[value].type.shape;
      program[value].type.shape = shape;
    }
  }
  if (!changes) return program;
  for (Op& op : program.ops) infer_again(program, op);
  return program;
}

}  // namespace plimsoll::models

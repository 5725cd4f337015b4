#include "plimsoll/program/spread_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "plimsoll/program/gradient_sums.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/program/passes/dead_code.h"

namespace plimsoll::program {
namespace {

// A copy of a parameter for the ops from `first` to `last`.
struct Gathered {
  Value parameter;
  int32_t first = 0;
  int32_t last = 0;
  int32_t start = 0;  // it is gathered from before this op on
  Value going = {};
  Value whole = {};
};

class Spreader {
 public:
  Spreader(Program program, const TrainOptions& options)
      : program_(std::move(program)),
        options_(options),
        makers_(producers(program_)),
        is_spread_(program_.values.size(), false),
        uses_(program_.values.size()) {
    for (const ValueInfo& value : program_.values) names_.insert(value.name);
  }

  Program run() && {
    for (const Value parameter : program_.parameters) {
      if (is_spread(program_[parameter].type, options_)) spread_.push_back(parameter);
    }
    if (spread_.empty()) return std::move(program_);
    for (const Value parameter : spread_) is_spread_[at(parameter)] = true;
    find_uses();
    find_copies();
    hold_shards();
    const std::vector<Op> ops = std::move(program_.ops);
    program_.ops.clear();
    for (size_t i = 0; i < ops.size(); ++i) {
      phase_ = ops[i].phase;
      gather_before(static_cast<int32_t>(i));
      if (!is_dropped(ops, i)) program_.ops.push_back(with_copies(ops[i], static_cast<int32_t>(i), ops));
    }
    return eliminate_dead_code(std::move(program_));  // views of what is no more, and copies of shards
  }

 private:
  static size_t at(Value value) { return static_cast<size_t>(value.index); }
  // Of the program as it was: copies and shards have other storages.
  Value parameter_of(Value value) const {
    const Value storage = value && at(value) < is_spread_.size() ? storages_[at(value)] : Value{};
    return storage && is_spread_[at(storage)] ? storage : Value{};
  }
  int64_t bytes_of(Value parameter) const { return whole_types_.at(parameter.index).bytes().constant(); }

  static bool is_own_shard(const Op& op) { return op.def->name == "own_shard"; }
  bool shows_parameter(const Op& op) const { return op.def->produces_views() && parameter_of(op.outputs[0]); }
  bool is_dropped(const std::vector<Op>& ops, size_t i) const {
    const Op& op = ops[i];
    return shows_parameter(op) || (is_own_shard(op) && parameter_of(op.inputs[0]));
  }

  void find_uses() {
    for (const ValueInfo& value : program_.values) storages_.push_back(value.storage);
    for (const Value parameter : spread_) whole_types_[parameter.index] = program_[parameter].type;
    read_before_.assign(program_.ops.size() + 1, 0);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      read_before_[i + 1] = read_before_[i];
      if (is_dropped(program_.ops, i)) continue;
      for (const Value input : program_.ops[i].inputs) {
        const Value parameter = parameter_of(input);
        if (!parameter) continue;
        std::vector<int32_t>& uses = uses_[at(parameter)];
        if (!uses.empty() && uses.back() == static_cast<int32_t>(i)) continue;
        uses.push_back(static_cast<int32_t>(i));
        read_before_[i + 1] += bytes_of(parameter);
      }
    }
  }

  // Bytes of parameters that are read between two ops.
  int64_t read_between(int32_t one, int32_t other) const {
    return read_before_[static_cast<size_t>(other)] - read_before_[static_cast<size_t>(one) + 1];
  }

  void find_copies() {
    for (const Value parameter : spread_) {
      for (const int32_t use : uses_[at(parameter)]) {
        const bool goes_on = !copies_.empty() && copies_.back().parameter == parameter &&
                             read_between(copies_.back().last, use) < bytes_of(parameter);
        if (!goes_on) copies_.push_back({.parameter = parameter, .first = use});
        copies_.back().last = use;
      }
    }
    std::stable_sort(copies_.begin(), copies_.end(),
                     [](const Gathered& one, const Gathered& other) { return one.first < other.first; });
    for (size_t i = 0; i < copies_.size(); ++i) {
      copies_[i].start = i > 0 && options_.overlap ? copies_[i - 1].first : copies_[i].first;
    }
  }

  // What was a copy of the rank's own shard is the parameter itself.
  void hold_shards() {
    std::vector<Value> becomes(program_.values.size());
    for (const Op& op : program_.ops) {
      const Value parameter = is_own_shard(op) ? parameter_of(op.inputs[0]) : Value{};
      if (!parameter) continue;
      becomes[at(op.outputs[0])] = parameter;
    }
    for (ValueInfo& value : program_.values) {
      const Value held = becomes[at(value.storage)];
      if (!held || value.storage == held) continue;
      value.storage = held;
      value.category = program_[held].category;
    }
    shards_ = std::move(becomes);
    for (const Value parameter : spread_) {
      Type& type = program_[parameter].type;
      type.shape = {shard_elements(type.shape, options_.ranks)};
    }
  }

  std::string unique_name(std::string_view base) {
    std::string name(base);
    for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    return name;
  }

  Value add_value(std::string_view base, const Type& type, Value storage, std::optional<Layout> view = {}) {
    const Value value{static_cast<int32_t>(program_.values.size())};
    program_.values.push_back({unique_name(base), type, Category::parameter, storage ? storage : value, view});
    return value;
  }

  void gather_before(int32_t op) {
    const auto starts_here = [&](const Gathered& copy) { return copy.start == op; };
    for (Gathered& copy : copies_) {
      if (starts_here(copy) && copy.first == op) start(copy);
    }
    for (Gathered& copy : copies_) {
      if (copy.first == op) finish(copy);
    }
    for (Gathered& copy : copies_) {
      if (starts_here(copy) && copy.first > op) start(copy);
    }
  }

  void start(Gathered& copy) {
    const std::string& name = program_[copy.parameter].name;
    copy.going = add_value(fmt::format("{}.going", name), whole_types_.at(copy.parameter.index), {});
    program_.ops.push_back({&op_table().get("gather_start"),
                            phase_,
                            {copy.parameter},
                            {copy.going},
                            {Attribute(options_.ranks), Attribute(whole_types_.at(copy.parameter.index).shape)}});
  }

  void finish(Gathered& copy) {
    const Type type = whole_types_.at(copy.parameter.index);
    copy.whole = add_value(fmt::format("{}.whole", program_[copy.parameter].name), type, copy.going);
    program_.ops.push_back(
        {&op_table().get("collective_finish"), phase_, {copy.going}, {copy.whole}, {Attribute(options_.ranks)}});
  }

  const Gathered& copy_at(Value parameter, int32_t op) const {
    return *std::find_if(copies_.begin(), copies_.end(), [&](const Gathered& copy) {
      return copy.parameter == parameter && copy.first <= op && op <= copy.last;
    });
  }

  Op with_copies(Op op, int32_t place, const std::vector<Op>& ops) {
    for (Value& input : op.inputs) {
      if (shards_[at(input)]) {
        input = shards_[at(input)];
      } else if (const Value parameter = parameter_of(input)) {
        input = shown(input, copy_at(parameter, place), ops);
      }
    }
    return op;
  }

  // The value as it shows this copy.
  Value shown(Value value, const Gathered& copy, const std::vector<Op>& ops) {
    if (value == copy.parameter) return copy.whole;
    const auto key = std::pair(value.index, copy.going.index);
    if (const auto found = views_.find(key); found != views_.end()) return found->second;
    Op view = ops[static_cast<size_t>(makers_[at(value)])];
    view.inputs[0] = shown(view.inputs[0], copy, ops);
    for (Value& output : view.outputs) {
      const Value of = output;
      const ValueInfo info = program_[of];
      output = add_value(info.name, info.type, copy.going, info.view);
      views_[{of.index, copy.going.index}] = output;
    }
    program_.ops.push_back(std::move(view));
    return views_.at(key);
  }

  Program program_;
  const TrainOptions& options_;
  std::vector<int32_t> makers_;
  std::vector<Value> spread_;
  std::vector<bool> is_spread_;                         // by value of the program as it was
  std::vector<Value> storages_;                         // of the program as it was
  std::vector<Value> shards_;                           // by value: the parameter that a copy of the own shard was of
  std::map<int32_t, Type> whole_types_;                 // by parameter
  std::vector<std::vector<int32_t>> uses_;              // by parameter: ops that read it
  std::vector<int64_t> read_before_;                    // by op: bytes of parameters, as often as they are read
  std::vector<Gathered> copies_;                        // by their first op
  std::map<std::pair<int32_t, int32_t>, Value> views_;  // by value and copy
  std::unordered_set<std::string> names_;
  Phase phase_ = Phase::forward;
};

}  // namespace

Program spread_parameters(Program step, const TrainOptions& options) {
  return Spreader(std::move(step), options).run();
}

std::optional<Dims> whole_shape(const Program& program, Value parameter) {
  for (const Op& op : program.ops) {
    if (op.def->name == "gather_start" && op.inputs[0] == parameter) return program[op.outputs[0]].type.shape;
  }
  return std::nullopt;
}

}  // namespace plimsoll::program

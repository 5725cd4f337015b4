#include "plimsoll/plan/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;
using kernels::LoweredOp;
using program::Op;
using program::Program;
using program::Value;
using program::ValueInfo;

size_t at(Value value) { return static_cast<size_t>(value.index); }

std::string text_of(const Program& program, const Op& op) {
  return fmt::format("{} %{}", op.def->name, program[op.outputs[0]].name);
}

class Rewriter {
 public:
  explicit Rewriter(const Lowered& lowered)
      : from_(lowered),
        instance_(lowered.program.values.size(), 1),
        made_(lowered.program.values.size(), false),
        done_(lowered.program.ops.size(), false),
        makers_(program::producers(lowered.program)),
        readers_(lowered.program.values.size()) {
    Program& to = result_.lowered.program;
    to = lowered.program;
    to.ops.clear();
    result_.lowered.device = lowered.device;
    result_.lowered.threads = lowered.threads;
    for (const Value value : original(lowered.program.values.size())) current_.push_back(value);
    for (const ValueInfo& value : to.values) names_.emplace(value.name, 1);
    find_readers_of_silent_ops();
  }

  Rewritten run(std::span<const Step> steps) && {
    start();
    find_room(steps);
    for (size_t i = 0; i < steps.size(); ++i) {
      finish_copies(i);
      act(steps[i], i, steps.size());
    }
    finish_copies(steps.size());
    for (size_t op = 0; op < done_.size(); ++op) {
      if (!done_[op]) throw ArgumentError(fmt::format("the plan never runs {}", text(static_cast<int32_t>(op))));
    }
    Program& to = result_.lowered.program;
    for (Value& output : to.outputs) output = resolve(output);
    return std::move(result_);
  }

 private:
  using Made = Rewritten::Made;

  static std::vector<Value> original(size_t count) {
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) values.push_back({static_cast<int32_t>(i)});
    return values;
  }

  // A copy that was started.
  struct Copying {
    StepKind kind;
    Value owner;  // of what is copied, in the program that is planned
    Value from;
    Value to;
    std::vector<program::Attribute> where;
  };

  const Program& program() const { return from_.program; }
  const Op& op_at(int32_t op) const { return program().ops[static_cast<size_t>(op)]; }
  std::string text(int32_t op) const { return text_of(program(), op_at(op)); }

  void act(const Step& step, size_t place, size_t steps) {
    if (step.is_copy()) {
      check_copy(step, place, steps);
      step.kind == StepKind::spill ? spill(step) : fetch(step);
    } else {
      check_place(step);
      step.kind == StepKind::run ? run_op(step.op) : recompute(step);
    }
  }

  void check_copy(const Step& step, size_t place, size_t steps) const {
    if (!step.copied || at(step.copied) >= made_.size() || !made_[at(step.copied)]) {
      throw ArgumentError(fmt::format("step {} of the plan copies what is not made", place));
    }
    const auto finish = static_cast<size_t>(std::max(0, step.finish_before));
    if (finish > place && finish <= steps) return;
    throw ArgumentError(fmt::format("step {} of the plan is done before step {}, of {}", place, finish, steps));
  }

  void find_room(std::span<const Step> steps) {
    for (const Step& step : steps) {
      if (!step.is_copy() || !step.copied || at(step.copied) >= made_.size()) continue;
      room_ = std::max(room_, step.file_offset + program()[step.copied].type.spec().bytes());
    }
  }

  void spill(const Step& step) {
    const Value from = resolve(step.copied);
    const Value to = add_value(step.copied, {});
    start_copy(step, "spill", from, to, {});
  }

  void fetch(const Step& step) {
    const auto gone = in_file_.find(step.copied.index);
    if (gone == in_file_.end()) {
      throw ArgumentError(fmt::format("the plan fetches %{}, which is not in the file", program()[step.copied].name));
    }
    const Value to = add_value(step.copied, {});
    start_copy(step, "fetch", gone->second, to, {to});
  }

  void start_copy(const Step& step, std::string_view op, Value from, Value to, std::vector<Value> made) {
    const Copying copying{step.kind, step.copied, from, to, {step.file_offset, room_}};
    result_.steps.push_back({emit_copy(op, {from}, to, copying.where), std::move(made)});
    copying_.emplace(step.finish_before, copying);
  }

  int32_t emit_copy(std::string_view op, std::vector<Value> inputs, Value output,
                    const std::vector<program::Attribute>& where) {
    Program& to = result_.lowered.program;
    const program::Phase phase = to.ops.empty() ? program::Phase::forward : to.ops.back().phase;
    Op copy{&program::op_table().get(op), phase, std::move(inputs), {output}, where};
    LoweredOp kernel = kernels::prepare_added(from_, to, copy);
    return emit(std::move(copy), std::move(kernel));
  }

  void finish_copies(size_t place) {
    const auto [first, end] = copying_.equal_range(static_cast<int32_t>(place));
    for (auto it = first; it != end; ++it) finish(it->second);
    copying_.erase(first, end);
  }

  void finish(const Copying& copying) {
    const Value done = add_value(copying.owner, copying.to);
    if (copying.kind == StepKind::spill) {
      emit_copy("spill_finish", {copying.to, copying.from}, done, copying.where);
      in_file_[copying.owner.index] = done;
    } else {
      emit_copy("fetch_finish", {copying.to}, done, copying.where);
      ++instance_[at(copying.owner)];
      current_[at(copying.owner)] = done;
    }
  }

  void check_place(const Step& step) const {
    if (step.op >= 0 && static_cast<size_t>(step.op) < done_.size()) return;
    throw ArgumentError(fmt::format("the plan runs op {}, the program has {}", step.op, done_.size()));
  }

  void find_readers_of_silent_ops() {
    for (size_t op = 0; op < program().ops.size(); ++op) {
      if (takes_a_step(from_, static_cast<int32_t>(op))) continue;
      for (const Value input : program().ops[op].inputs) readers_[at(input)].push_back(static_cast<int32_t>(op));
    }
  }

  void start() {
    for (const auto* list : {&program().inputs, &program().parameters, &program().state}) {
      for (const Value value : *list) mark_produced(value);
    }
    for (size_t op = 0; op < program().ops.size(); ++op) {
      if (program().ops[op].inputs.empty() && !takes_a_step(from_, static_cast<int32_t>(op))) {
        run_silently(static_cast<int32_t>(op));
      }
    }
  }

  // Views of a value stand right behind it.
  void mark_produced(Value value) {
    made_[at(value)] = true;
    for (const int32_t op : readers_[at(value)]) {
      const auto& inputs = op_at(op).inputs;
      if (!done_[static_cast<size_t>(op)] &&
          std::all_of(inputs.begin(), inputs.end(), [&](Value input) { return made_[at(input)]; })) {
        run_silently(op);
      }
    }
  }

  void run_silently(int32_t op) {
    emit(op_at(op), from_.ops[static_cast<size_t>(op)]);
    finish_first_run(op);
  }

  void finish_first_run(int32_t op) {
    done_[static_cast<size_t>(op)] = true;
    for (const Value output : op_at(op).outputs) {
      if (output) mark_produced(output);
    }
  }

  int32_t emit(Op op, LoweredOp lowered) {
    result_.lowered.program.ops.push_back(std::move(op));
    result_.lowered.ops.push_back(std::move(lowered));
    return static_cast<int32_t>(result_.lowered.program.ops.size()) - 1;
  }

  Op with_current_inputs(Op op) {
    for (Value& input : op.inputs) {
      if (!made_[at(input)]) {
        throw ArgumentError(
            fmt::format("the plan runs {} before %{} is made", text_of(program(), op), program()[input].name));
      }
      input = resolve(input);
    }
    return op;
  }

  void run_op(int32_t op) {
    if (!takes_a_step(from_, op)) throw ArgumentError(fmt::format("{} is a view, no step of a plan", text(op)));
    if (done_[static_cast<size_t>(op)]) throw ArgumentError(fmt::format("the plan runs {} twice", text(op)));
    Op run = with_current_inputs(op_at(op));
    const int32_t place = emit(std::move(run), from_.ops[static_cast<size_t>(op)]);
    result_.steps.push_back({place, storages_produced_by(program(), op_at(op))});
    finish_first_run(op);
  }

  void recompute(const Step& step) {
    if (!done_[static_cast<size_t>(step.op)]) {
      throw ArgumentError(fmt::format("the plan recomputes {} before it ran", text(step.op)));
    }
    const Op& first = op_at(step.op);
    if (!first.def->overwrites.empty() || !takes_a_step(from_, step.op)) {
      throw ArgumentError(fmt::format("the plan recomputes {}, which cannot be run again", text(step.op)));
    }
    Op again = with_current_inputs(first);
    Made made;
    for (size_t k = 0; k < again.outputs.size(); ++k) {
      again.outputs[k] = recomputed(step, first, k);
      if (again.outputs[k]) made.owners.push_back(again.outputs[k]);
    }
    LoweredOp kernel = kernel_of(step.op, again);
    made.op = emit(std::move(again), std::move(kernel));
    result_.steps.push_back(std::move(made));
  }

  // A new instance of result k, or nothing when the step leaves it out.
  Value recomputed(const Step& step, const Op& op, size_t k) {
    const Value output = op.outputs[k];
    if (!output) return {};
    const bool listed = std::any_of(step.writes.begin(), step.writes.end(),
                                    [&](const Placed& placed) { return placed.owner == output; });
    if (!listed && op.def->is_optional_output(k)) return {};
    if (!listed || program()[output].storage != output) {
      throw ArgumentError(
          fmt::format("the plan recomputes {} and does not say where %{} goes", text(step.op), program()[output].name));
    }
    ++instance_[at(output)];
    current_[at(output)] = add_value(output, {});
    return current_[at(output)];
  }

  // Another instance of a value, in the given storage or its own.
  Value add_value(Value of, Value storage) {
    ValueInfo info = program()[of];
    const Value added{static_cast<int32_t>(result_.lowered.program.values.size())};
    info.name = instance_name(info.name);
    info.storage = storage ? storage : added;
    result_.lowered.program.values.push_back(std::move(info));
    return added;
  }

  // "relu_3/2" for the second instance of relu_3.
  std::string instance_name(const std::string& name) {
    int& number = names_.at(name);  // stays where it is when others are added
    while (true) {
      std::string tried = fmt::format("{}/{}", name, ++number);
      if (names_.emplace(tried, 1).second) return tried;
    }
  }

  LoweredOp kernel_of(int32_t op, const Op& again) {
    std::vector<bool> made;
    for (const Value output : again.outputs) made.push_back(static_cast<bool>(output));
    const auto [found, is_new] = kernels_.try_emplace({op, made});
    if (is_new) found->second = prepared(op, made);
    return found->second;
  }

  LoweredOp prepared(int32_t op, const std::vector<bool>& made) const {
    const std::vector<Value>& first = op_at(op).outputs;
    const bool makes_all = std::equal(first.begin(), first.end(), made.begin(), [](Value value, bool is_produced) {
      return static_cast<bool>(value) == is_produced;
    });
    const auto place = static_cast<size_t>(op);
    return makes_all ? from_.ops[place] : kernels::prepare_again(from_, place, made);
  }

  // The value as it is now: itself, or what shows the same part of the newest instance of its storage.
  Value resolve(Value value) {
    const Value owner = program()[value].storage;
    const int instance = instance_[at(owner)];
    if (instance == 1) return value;
    if (value == owner) return current_[at(owner)];
    const auto found = views_.find({value.index, instance});
    return found != views_.end() ? found->second : show_again(value, instance);
  }

  Value show_again(Value value, int instance) {
    const int32_t maker = makers_[at(value)];
    Op view = op_at(maker);
    for (Value& input : view.inputs) input = resolve(input);
    const Value storage = result_.lowered.program[current_[at(program()[value].storage)]].storage;
    for (Value& output : view.outputs) {
      const Value shown = output;
      output = add_value(shown, storage);
      views_[{shown.index, instance}] = output;
    }
    emit(std::move(view), from_.ops[static_cast<size_t>(maker)]);
    return views_.at({value.index, instance});
  }

  const Lowered& from_;
  Rewritten result_;
  std::vector<int> instance_;                       // of each storage, by its owner: the newest; 1 is the original
  std::vector<Value> current_;                      // of each storage, by its owner: the whole of the newest instance
  std::vector<bool> made_;                          // by value: whether its op ran
  std::vector<bool> done_;                          // by op: whether it ran once
  std::vector<int32_t> makers_;                     // by value: the op, or -1
  std::vector<std::vector<int32_t>> readers_;       // by value: ops that take no step
  std::map<std::pair<int32_t, int>, Value> views_;  // by value and instance of its storage
  std::map<std::pair<int32_t, std::vector<bool>>, LoweredOp> kernels_;  // by op and which results are made
  std::unordered_map<std::string, int> names_;                          // and the last number tried after each
  std::multimap<int32_t, Copying> copying_;                             // by the step before which they are done
  std::map<int32_t, Value> in_file_;                                    // by owner
  int64_t room_ = 0;                                                    // bytes of the file
};

}  // namespace

bool takes_a_step(const Lowered& lowered, int32_t op) {
  return static_cast<bool>(lowered.ops[static_cast<size_t>(op)].kernel.bind);
}

std::vector<Value> storages_produced_by(const Program& program, const Op& op) {
  std::vector<Value> owners;
  for (const Value output : op.outputs) {
    if (output && program[output].storage == output) owners.push_back(output);
  }
  return owners;
}

Rewritten rewrite(const Lowered& lowered, std::span<const Step> steps) { return Rewriter(lowered).run(steps); }

}  // namespace plimsoll::plan

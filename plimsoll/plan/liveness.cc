#include "plimsoll/plan/liveness.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/ops/spill.h"
#include "plimsoll/program/ops/spilled.h"

namespace plimsoll::plan {
namespace {

using program::Op;
using program::Program;
using program::Value;
using program::ValueInfo;

int64_t bytes_of(const ValueInfo& value) {
  if (value.type.shape.is_constant()) return value.type.spec().bytes();
  throw ArgumentError(
      fmt::format("%{} is {}: bind its dimensions before asking for its bytes", value.name, value.type.text()));
}

class Analysis {
 public:
  explicit Analysis(const Program& program) : program_(program), place_(program.values.size(), -1) {
    found_.steps = std::max<int32_t>(1, static_cast<int32_t>(program.ops.size()));
  }

  Liveness run(const LivenessOptions& options) && {
    keep_what_comes_in();
    for (size_t op = 0; op < program_.ops.size(); ++op) touch_operands(static_cast<int32_t>(op));
    for (const Value output : program_.outputs) keep(output);
    for (size_t op = 0; options.in_place && op < program_.ops.size(); ++op) hand_over(static_cast<int32_t>(op));
    for (const Value value : program::spilled_values(program_)) storage(value).bytes = 0;  // they lie in a file
    for (const Value value : program::spilled_results(program_)) storage(value).bytes = 0;
    give_buffers();
    std::sort(found_.storages.begin(), found_.storages.end(),
              [](const Storage& a, const Storage& b) { return a.owner.index < b.owner.index; });
    for (size_t op = 0; op < options.scratch_bytes.size(); ++op) {
      if (options.scratch_bytes[op] > 0) add_scratch(static_cast<int32_t>(op), options.scratch_bytes[op]);
    }
    return std::move(found_);
  }

 private:
  // Inputs last: programs that take turns with the same parameters and state then have them at the same offsets.
  void keep_what_comes_in() {
    for (const auto* list : {&program_.parameters, &program_.state, &program_.inputs}) {
      for (const Value value : *list) touch(value, 0).end = found_.steps;
    }
    persistent_ = found_.storages.size();
  }

  void touch_operands(int32_t time) {
    const Op& op = program_.ops[static_cast<size_t>(time)];
    for (const auto* list : {&op.inputs, &op.outputs}) {
      for (const Value value : *list) {
        if (value) touch(value, time);
      }
    }
  }

  Storage& touch(Value value, int32_t time) {
    const Value owner = program_[value].storage;
    int32_t& place = place_[static_cast<size_t>(owner.index)];
    if (place < 0) {
      place = static_cast<int32_t>(found_.storages.size());
      found_.storages.push_back({owner, bytes_of(program_[owner]), time, time + 1, -1});
      before_.push_back(-1);
    }
    Storage& touched = found_.storages[static_cast<size_t>(place)];
    touched.end = std::max(touched.end, time + 1);
    return touched;
  }

  // The caller reads it after the last op, which must not take it over either.
  void keep(Value output) {
    storage(output).end = found_.steps;
    kept_.insert(program_[output].storage.index);
  }

  int32_t place_of(Value value) const { return place_[static_cast<size_t>(program_[value].storage.index)]; }
  Storage& storage(Value value) { return found_.storages[static_cast<size_t>(place_of(value))]; }

  // Gives result 0 of the op the memory of an operand that dies here, if the op can work that way.
  void hand_over(int32_t time) {
    const Op& op = program_.ops[static_cast<size_t>(time)];
    if (op.def->in_place.empty() || program_[op.outputs[0]].storage != op.outputs[0]) return;
    for (const int i : op.def->in_place) {
      if (static_cast<size_t>(i) >= op.inputs.size() || !can_take(op, op.inputs[static_cast<size_t>(i)], time))
        continue;
      before_[static_cast<size_t>(place_of(op.outputs[0]))] = place_of(op.inputs[static_cast<size_t>(i)]);
      return;
    }
  }

  bool can_take(const Op& op, Value operand, int32_t time) {
    const Storage& dying = storage(operand);
    const bool persistent = static_cast<size_t>(place_of(operand)) < persistent_;
    if (persistent || kept_.contains(dying.owner.index) || dying.end != time + 1 ||
        dying.bytes != storage(op.outputs[0]).bytes)
      return false;
    const auto lives_there = [&](Value value) { return value && program_[value].storage == dying.owner; };
    if (std::any_of(op.outputs.begin(), op.outputs.end(), lives_there)) return false;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (lives_there(op.inputs[i]) && !(may_be_replaced(op, i) && is_whole(op.inputs[i]))) return false;
    }
    return true;
  }

  static bool may_be_replaced(const Op& op, size_t operand) {
    const std::vector<int>& allowed = op.def->in_place;
    return std::find(allowed.begin(), allowed.end(), static_cast<int>(operand)) != allowed.end();
  }

  // Whether the value is its whole storage in row-major order.
  bool is_whole(Value value) const {
    const ValueInfo& info = program_[value];
    if (!info.view) return true;
    return info.view->offset == 0 && info.view->strides == row_major(info.type.shape) &&
           info.type.bytes() == program_[info.storage].type.bytes();
  }

  // Storages stand in the order in which they are first touched, so one that is taken over has its buffer already.
  void give_buffers() {
    for (size_t i = 0; i < found_.storages.size(); ++i) {
      Storage& storage = found_.storages[i];
      if (before_[i] < 0) {
        storage.buffer = static_cast<int32_t>(found_.buffers.size());
        found_.buffers.push_back({storage.bytes, storage.first, storage.end, i < persistent_});
      } else {
        storage.buffer = found_.storages[static_cast<size_t>(before_[i])].buffer;
        found_.buffers[static_cast<size_t>(storage.buffer)].end = storage.end;
      }
    }
  }

  void add_scratch(int32_t time, int64_t bytes) {
    found_.storages.push_back({{}, bytes, time, time + 1, static_cast<int32_t>(found_.buffers.size())});
    found_.buffers.push_back({bytes, time, time + 1, false});
  }

  const Program& program_;
  Liveness found_;
  std::vector<int32_t> place_;   // of each value that owns a storage: where that is in found_.storages
  std::vector<int32_t> before_;  // of each storage: the one whose memory it takes over, or -1
  size_t persistent_ = 0;        // the first so many storages came in
  std::set<int32_t> kept_;       // owners of what the caller reads after the step
};

}  // namespace

Liveness find_liveness(const Program& program, const LivenessOptions& options) {
  return Analysis(program).run(options);
}

std::vector<int64_t> live_bytes(const Liveness& liveness) {
  std::vector<int64_t> live(static_cast<size_t>(liveness.steps) + 1, 0);
  for (const Buffer& buffer : liveness.buffers) {
    live[static_cast<size_t>(buffer.first)] += buffer.bytes;
    live[static_cast<size_t>(buffer.end)] -= buffer.bytes;
  }
  for (size_t time = 1; time < live.size(); ++time) live[time] += live[time - 1];
  live.pop_back();
  return live;
}

std::vector<Storage> alive_at(const Liveness& liveness, int32_t time) {
  std::vector<int32_t> tenant(liveness.buffers.size(), -1);
  for (size_t i = 0; i < liveness.storages.size(); ++i) {
    const Storage& storage = liveness.storages[i];
    if (time < storage.first || time >= storage.end) continue;
    int32_t& held = tenant[static_cast<size_t>(storage.buffer)];
    if (held < 0 || liveness.storages[static_cast<size_t>(held)].first < storage.first) held = static_cast<int32_t>(i);
  }
  std::vector<Storage> alive;
  for (const int32_t i : tenant) {
    if (i >= 0) alive.push_back(liveness.storages[static_cast<size_t>(i)]);
  }
  return alive;
}

}  // namespace plimsoll::plan

#include "plimsoll/plan/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/ops/spilled.h"

namespace plimsoll::plan {
namespace {

using program::Op;
using program::Program;
using program::Value;
using program::ValueInfo;

struct Fault {
  std::string text;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{fmt::format(format, std::forward<Args>(args)...)};
}

struct Interval {
  int64_t first = 0;
  int64_t end = 0;

  bool overlaps(const Interval& other) const { return first < other.end && other.first < end; }
  bool operator==(const Interval&) const = default;
};

// Which storage's content lies where. Writing over a part of one destroys it.
class Bytes {
 public:
  void write(const Interval& where, Value owner) {
    if (where.first == where.end) return;
    auto it = held_.lower_bound(where.first);
    if (it != held_.begin() && std::prev(it)->second.where.end > where.first) --it;
    while (it != held_.end() && it->first < where.end) it = held_.erase(it);
    held_[where.first] = {where, owner};
  }

  bool holds(const Interval& where, Value owner) const {
    const auto found = held_.find(where.first);
    return found != held_.end() && found->second.where == where && found->second.owner == owner;
  }

 private:
  struct Held {
    Interval where;
    Value owner;
  };
  std::map<int64_t, Held> held_;  // by where it begins; apart from each other
};

class Oracle {
 public:
  Oracle(const Plan& plan, const kernels::Lowered& lowered)
      : plan_(plan),
        lowered_(lowered),
        program_(lowered.program),
        where_(program_.values.size()),
        version_(program_.values.size(), 0),
        seen_(program_.values.size(), -1),
        runs_(program_.ops.size(), 0),
        maker_(program::producers(program_)),
        in_file_(program_.values.size(), false) {
    for (const Value value : program::spilled_values(program_)) in_file_[at(value)] = true;
  }

  void check() {
    require_same_program(plan_, lowered_);
    check_arena();
    place_resident();
    for (step_ = 0; step_ < plan_.steps.size(); ++step_) {
      finish_copies();
      plan_.steps[step_].is_copy() ? start_copy(plan_.steps[step_]) : act(plan_.steps[step_]);
    }
    finish_copies();
    check_end();
  }

 private:
  static size_t at(Value value) { return static_cast<size_t>(value.index); }
  const ValueInfo& info(Value value) const { return program_[value]; }
  int64_t bytes_of(Value owner) const { return in_file_[at(owner)] ? 0 : info(owner).type.spec().bytes(); }
  bool works(int32_t op) const { return static_cast<bool>(lowered_.ops[static_cast<size_t>(op)].kernel.bind); }

  // "step 12, relu %a"
  std::string here(const Op& op) const {
    return fmt::format("step {}, {} %{}", step_, op.def->name, info(op.outputs[0]).name);
  }

  void check_arena() const {
    if (plan_.arena_bytes > plan_.budget_bytes) {
      fail("the arena takes {} bytes, the budget is {}", plan_.arena_bytes, plan_.budget_bytes);
    }
  }

  Interval place(Value owner, int64_t offset, std::string_view what) {
    return place_bytes(bytes_of(owner), offset, fmt::format("{} %{}", what, info(owner).name));
  }

  Interval place_bytes(int64_t bytes, int64_t offset, std::string_view what) {
    if (bytes == 0 && offset >= 0 && offset <= plan_.arena_bytes) return {};
    if (offset < 0 || offset % kernels::kAlignment != 0 || offset > plan_.arena_bytes - bytes) {
      fail("{}: {} bytes at offset {} do not lie in the arena of {} at a multiple of {}", what, bytes, offset,
           plan_.arena_bytes, kernels::kAlignment);
    }
    highest_ = std::max(highest_, align_up(offset + bytes, kernels::kAlignment));
    return {offset, offset + bytes};
  }

  std::vector<Value> sources() const {
    std::vector<Value> all = program_.inputs;
    all.insert(all.end(), program_.parameters.begin(), program_.parameters.end());
    all.insert(all.end(), program_.state.begin(), program_.state.end());
    return all;
  }

  void place_resident() {
    for (const Placed& placed : plan_.resident) {
      if (!placed.owner || at(placed.owner) >= where_.size() || maker_[at(placed.owner)] >= 0) {
        fail("value {} is listed as resident and does not come in", placed.owner.index);
      }
      const Interval where = place(placed.owner, placed.offset, "resident");
      for (const Placed& other : plan_.resident) {
        if (other.owner == placed.owner) break;
        if (where.overlaps(where_[at(other.owner)])) {
          fail("%{} and %{} come in at the same bytes", info(other.owner).name, info(placed.owner).name);
        }
      }
      put(placed.owner, where);
    }
    for (const Value source : sources()) {
      if (seen_[at(source)] < 0) fail("%{} comes in and has no place", info(source).name);
    }
  }

  void put(Value owner, const Interval& where) {
    where_[at(owner)] = where;
    seen_[at(owner)] = version_[at(owner)];
    bytes_.write(where, owner);
  }

  // The version of its storage that the value shows, or -1 when it was never made. A view shows what its operand does.
  int version_shown(Value value) const {
    const int32_t maker = maker_[at(value)];
    if (maker < 0 || works(maker)) return seen_[at(value)];
    const Op& silent = program_.ops[static_cast<size_t>(maker)];
    return info(value).storage == value ? 0 : version_shown(silent.inputs[0]);
  }

  void check_read(Value value, std::string_view reader) const {
    const Value owner = info(value).storage;
    if (bytes_of(owner) == 0) return;
    const int shown = version_shown(value);
    if (shown < 0) fail("{} reads %{}, which was not made before", reader, info(value).name);
    if (shown != version_[at(owner)]) fail("{} reads %{} after new content took its place", reader, info(value).name);
    if (!bytes_.holds(where_[at(owner)], owner)) {
      fail("{} reads %{}, and something was written over it", reader, info(value).name);
    }
  }

  // A copy under way between these bytes of the arena and those of the file.
  struct Copying {
    StepKind kind;
    Value owner;
    int version;
    Interval memory;
    Interval file;
    int32_t finish_before;
  };

  void start_copy(const Step& step) {
    const Value owner = step.copied;
    if (!owner || at(owner) >= where_.size() || info(owner).storage != owner || maker_[at(owner)] < 0) {
      fail("step {} copies value {}, which is no result with memory of its own", step_, owner.index);
    }
    const std::string here = fmt::format("step {}, {} of %{}", step_, name(step.kind), info(owner).name);
    if (step.finish_before <= static_cast<int64_t>(step_) ||
        step.finish_before > static_cast<int64_t>(plan_.steps.size())) {
      fail("{} is done before step {}, expected one after it", here, step.finish_before);
    }
    const Interval file = place_in_file(step, here);
    const Interval memory =
        step.kind == StepKind::spill ? start_spill(step, file, here) : start_fetch(step, file, here);
    copying_.push_back({step.kind, owner, version_[at(owner)], memory, file, step.finish_before});
  }

  Interval place_in_file(const Step& step, std::string_view here) {
    const int64_t bytes = bytes_of(step.copied);
    if (step.file_offset < 0 || step.file_offset > plan_.file_bytes - bytes) {
      fail("{}: {} bytes at offset {} do not lie in the file of {}", here, bytes, step.file_offset, plan_.file_bytes);
    }
    const Interval file{step.file_offset, step.file_offset + bytes};
    file_end_ = std::max(file_end_, file.end);
    for (const Copying& other : copying_) {
      if (other.file.overlaps(file))
        fail("{} shares bytes of the file with a copy of %{} that is not done", here, info(other.owner).name);
    }
    return file;
  }

  Interval start_spill(const Step& step, const Interval& file, std::string_view here) {
    if (!step.writes.empty()) fail("{} writes into memory", here);
    check_read(step.copied, here);
    file_.write(file, {});
    return where_[at(step.copied)];
  }

  Interval start_fetch(const Step& step, const Interval& file, std::string_view here) {
    if (step.writes.size() != 1 || step.writes[0].owner != step.copied) fail("{} does not say where it goes", here);
    const auto spilled = spilled_version_.find(step.copied.index);
    if (!file_.holds(file, step.copied)) fail("{}: it does not lie there in the file", here);
    if (spilled->second != version_[at(step.copied)]) fail("{}: it has new content since it was spilled", here);
    const Interval memory = place(step.copied, step.writes[0].offset, here);
    check_not_copied(memory, here);
    bytes_.write(memory, {});
    return memory;
  }

  void finish_copies() {
    for (const Copying& copy : copying_) {
      if (copy.finish_before != static_cast<int64_t>(step_)) continue;
      if (copy.kind == StepKind::fetch) {
        put(copy.owner, copy.memory);
      } else {
        file_.write(copy.file, copy.owner);
        spilled_version_[copy.owner.index] = copy.version;
      }
    }
    std::erase_if(copying_, [&](const Copying& copy) { return copy.finish_before == static_cast<int64_t>(step_); });
  }

  // Nothing may be written where a copy under way reads or writes.
  void check_not_copied(const Interval& written, std::string_view here) const {
    for (const Copying& copy : copying_) {
      if (copy.memory.overlaps(written))
        fail("{} writes where the {} of %{} is not done", here, name(copy.kind), info(copy.owner).name);
    }
  }

  void act(const Step& step) {
    if (step.op < 0 || static_cast<size_t>(step.op) >= runs_.size()) {
      fail("step {} is op {}, the program has {}", step_, step.op, runs_.size());
    }
    const Op& op = program_.ops[static_cast<size_t>(step.op)];
    check_kind(step, op);
    for (const Value input : op.inputs) check_read(input, here(op));
    const std::vector<Interval> made = check_writes(step, op);
    check_scratch(step, op, made);
    for (size_t i = 0; i < made.size(); ++i) put(step.writes[i].owner, made[i]);
    for (const program::Overwrite& overwrite : op.def->overwrites) renew(op, overwrite);
    ++runs_[static_cast<size_t>(step.op)];
  }

  void check_kind(const Step& step, const Op& op) const {
    const int runs = runs_[static_cast<size_t>(step.op)];
    if (!works(step.op)) fail("{} does no work and is no step", here(op));
    if (step.kind == StepKind::run && runs > 0) fail("{} runs a second time", here(op));
    if (step.kind == StepKind::run) return;
    if (runs == 0) fail("{} is recomputed before it ran", here(op));
    if (!op.def->overwrites.empty()) fail("{} overwrites what it reads and cannot be recomputed", here(op));
  }

  // Results that must be written, in order; recomputing may leave out optional ones.
  std::vector<Interval> check_writes(const Step& step, const Op& op) {
    std::vector<Interval> made;
    size_t next = 0;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const Value output = op.outputs[k];
      if (!output || info(output).storage != output) continue;
      const bool listed = next < step.writes.size() && step.writes[next].owner == output;
      if (!listed && step.kind == StepKind::recompute && op.def->is_optional_output(k)) continue;
      if (!listed) fail("{} does not say where %{} goes", here(op), info(output).name);
      made.push_back(place(output, step.writes[next++].offset, here(op) + ", result"));
      check_beside_operands(op, k, made.back());
      check_apart(made.back(), std::span(made).first(made.size() - 1), here(op) + ": two results");
      check_not_copied(made.back(), here(op));
    }
    if (next != step.writes.size()) fail("{} writes what it does not make", here(op));
    return made;
  }

  void check_beside_operands(const Op& op, size_t k, const Interval& made) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Interval& read = where_[at(info(op.inputs[i]).storage)];
      if (!made.overlaps(read)) continue;
      const std::vector<int>& allowed = op.def->in_place;
      const bool may = std::find(allowed.begin(), allowed.end(), static_cast<int>(i)) != allowed.end();
      if (k != 0 || !may || made != read || !shows_all(op.inputs[i])) {
        fail("{} writes result {} over its operand %{} and cannot", here(op), k, info(op.inputs[i]).name);
      }
    }
  }

  bool shows_all(Value value) const {
    const ValueInfo& shown = info(value);
    if (!shown.view) return true;
    return shown.view->offset == 0 && shown.type.spec().bytes() == bytes_of(shown.storage) &&
           shown.view->strides == program::row_major(shown.type.shape);
  }

  static void check_apart(const Interval& one, std::span<const Interval> others, std::string_view what) {
    for (const Interval& other : others) {
      if (one.overlaps(other)) fail("{} share bytes", what);
    }
  }

  int64_t scratch_bytes(const Step& step, const Op& op) const {
    const auto place = static_cast<size_t>(step.op);
    std::vector<bool> made;
    for (const Value output : op.outputs) {
      made.push_back(output && std::any_of(step.writes.begin(), step.writes.end(),
                                           [&](const Placed& placed) { return placed.owner == output; }));
    }
    const bool leaves_out = step.kind == StepKind::recompute && !makes_all(op, made);
    return (leaves_out ? kernels::prepare_again(lowered_, place, made) : lowered_.ops[place]).kernel.scratch_bytes;
  }

  static bool makes_all(const Op& op, const std::vector<bool>& made) {
    return std::equal(made.begin(), made.end(), op.outputs.begin(),
                      [](bool is_produced, Value value) { return is_produced == static_cast<bool>(value); });
  }

  void check_scratch(const Step& step, const Op& op, std::span<const Interval> made) {
    const int64_t bytes = scratch_bytes(step, op);
    if (bytes == 0 && step.scratch_offset != 0) {
      fail("{} has its scratch at {}, and its kernel needs none: expected 0", here(op), step.scratch_offset);
    }
    const Interval scratch = place_bytes(bytes, step.scratch_offset, here(op) + ", scratch");
    if (scratch == Interval{}) return;
    check_apart(scratch, made, here(op) + ": scratch and a result");
    check_not_copied(scratch, here(op));
    for (const Value input : op.inputs) {
      const Interval& read = where_[at(info(input).storage)];
      if (scratch.overlaps(read)) fail("{} has its scratch over its operand %{}", here(op), info(input).name);
    }
    bytes_.write(scratch, {});
  }

  void renew(const Op& op, const program::Overwrite& overwrite) {
    const Value output = op.outputs[static_cast<size_t>(overwrite.output)];
    if (!output) return;
    const Value owner = info(output).storage;
    check_not_copied(where_[at(owner)], here(op));
    seen_[at(output)] = ++version_[at(owner)];
  }

  void check_end() const {
    for (size_t op = 0; op < runs_.size(); ++op) {
      const Op& described = program_.ops[op];
      if (runs_[op] > 0 || !works(static_cast<int32_t>(op))) continue;
      fail("{} %{} never runs", described.def->name, info(described.outputs[0]).name);
    }
    for (const Value output : program_.outputs) check_read(output, "the caller");
    for (const Value source : sources()) {
      if (bytes_of(source) > 0 && !bytes_.holds(where_[at(source)], source)) {
        fail("%{} comes in and stays, and something was written over it", info(source).name);
      }
    }
    if (highest_ != plan_.arena_bytes) {
      fail("the arena takes {} bytes, the plan reaches up to {}", plan_.arena_bytes, highest_);
    }
    if (file_end_ != plan_.file_bytes) {
      fail("the file takes {} bytes, the plan reaches up to {}", plan_.file_bytes, file_end_);
    }
  }

  const Plan& plan_;
  const kernels::Lowered& lowered_;
  const Program& program_;
  Bytes bytes_;
  Bytes file_;
  std::vector<Copying> copying_;
  std::map<int32_t, int> spilled_version_;  // by owner
  std::vector<Interval> where_;             // by owner: its newest instance
  std::vector<int> version_;                // by owner: how often its content was replaced
  std::vector<int> seen_;       // by value that is no view: the version of its storage when it was made; -1: not yet
  std::vector<int> runs_;       // by op
  std::vector<int32_t> maker_;  // by value: the op, or -1
  std::vector<bool> in_file_;   // by owner: it takes no bytes of the arena
  int64_t highest_ = 0;
  int64_t file_end_ = 0;
  size_t step_ = 0;
};

}  // namespace

std::optional<std::string> find_fault(const Plan& plan, const kernels::Lowered& lowered) {
  try {
    Oracle(plan, lowered).check();
    return std::nullopt;
  } catch (const Fault& fault) {
    return fault.text;
  } catch (const ArgumentError& error) {
    return error.what();
  }
}

}  // namespace plimsoll::plan

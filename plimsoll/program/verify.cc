#include "plimsoll/program/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"

namespace plimsoll::program {
namespace {

using Problems = std::vector<std::string>;

template <class... Args>
void report(Problems& problems, fmt::format_string<Args...> format, Args&&... args) {
  problems.push_back(fmt::format(format, std::forward<Args>(args)...));
}

std::vector<Value> sources(const Program& program) {
  std::vector<Value> all = program.inputs;
  all.insert(all.end(), program.parameters.begin(), program.parameters.end());
  all.insert(all.end(), program.state.begin(), program.state.end());
  return all;
}

std::string name_of(const Program& program, const Op& op) {
  for (const Value output : op.outputs) {
    if (output) return fmt::format("{} %{}", op.def->name, program[output].name);
  }
  return op.def->name;
}

// Places that do not exist and ops that are no ops. Nothing else can be looked at when there are any.
class Places {
 public:
  Places(const Program& program, Problems& problems) : program_(program), problems_(problems) {}

  void check() {
    for (const ValueInfo& value : program_.values) check(value.storage, fmt::format("the storage of %{}", value.name));
    for (const Value value : sources(program_)) check(value, "an input, parameter or state");
    for (const Value value : program_.outputs) check(value, "an output of the program");
    for (size_t i = 0; i < program_.ops.size(); ++i) check(program_.ops[i], fmt::format("op {}", i));
  }

 private:
  void check(Value value, std::string_view what) {
    if (value.index >= 0 && static_cast<size_t>(value.index) < program_.values.size()) return;
    report(problems_, "{} is value {}, which does not exist: the program has {}", what, value.index,
           program_.values.size());
  }

  void check(const Op& op, std::string_view what) {
    if (op.def == nullptr) return report(problems_, "{} has no definition", what);
    for (const Value value : op.inputs) check(value, fmt::format("an operand of {} ({})", what, op.def->name));
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const bool left_out = !op.outputs[k] && op.def->is_optional_output(k);
      if (!left_out) check(op.outputs[k], fmt::format("an output of {} ({})", what, op.def->name));
    }
  }

  const Program& program_;
  Problems& problems_;
};

void check_values(const Program& program, Problems& problems) {
  std::unordered_set<std::string_view> seen;
  for (const ValueInfo& value : program.values) {
    if (!is_value_name(value.name)) report(problems, "{} is not a value name", quote(value.name));
    if (!seen.insert(value.name).second) report(problems, "two values have the name %{}", value.name);
    if (value.type.shape.is_negative()) report(problems, "%{} is {}, a negative size", value.name, value.type.text());
  }
}

void check_writers(const Program& program, Problems& problems) {
  std::vector<int> writers(program.values.size(), 0);
  const auto count = [&](Value value) { return value ? ++writers[static_cast<size_t>(value.index)] : 0; };
  for (const Value value : sources(program)) count(value);
  for (const Op& op : program.ops) {
    for (const Value output : op.outputs) count(output);
  }
  for (size_t i = 0; i < writers.size(); ++i) {
    if (writers[i] == 0) report(problems, "%{} is made by nothing", program.values[i].name);
    if (writers[i] > 1) report(problems, "%{} has {} writers, expected one", program.values[i].name, writers[i]);
  }
}

// The ops that op `i` waits for.
std::vector<size_t> waits_for(const Program& program, const std::vector<int32_t>& produced_by, size_t i) {
  std::vector<size_t> ops;
  for (const Value input : program.ops[i].inputs) {
    const int32_t maker = produced_by[static_cast<size_t>(input.index)];
    if (maker >= 0) ops.push_back(static_cast<size_t>(maker));
  }
  return ops;
}

// Ops on a cycle, in the order that each waits for the next; empty when there is none.
std::vector<size_t> find_cycle(const Program& program, const std::vector<int32_t>& produced_by) {
  enum class Mark : uint32_t { fresh, open, done };  // of bytes, g++ 12 takes the vector for no heap's
  using enum Mark;
  std::vector<Mark> marks(program.ops.size(), fresh);
  std::vector<size_t> path;
  for (size_t start = 0; start < marks.size(); ++start) {
    if (marks[start] == fresh) path.push_back(start);
    while (!path.empty()) {
      const size_t op = path.back();
      marks[op] = open;
      const auto next = waits_for(program, produced_by, op);
      const auto waiting = std::find_if(next.begin(), next.end(), [&](size_t other) { return marks[other] != done; });
      if (waiting == next.end()) {
        marks[op] = done;
        path.pop_back();
      } else if (marks[*waiting] == open) {
        path.erase(path.begin(), std::find(path.begin(), path.end(), *waiting));
        return path;
      } else {
        path.push_back(*waiting);
      }
    }
  }
  return {};
}

void check_order(const Program& program, Problems& problems) {
  const std::vector<int32_t> produced_by = producers(program);
  bool in_order = true;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (const Value input : program.ops[i].inputs) {
      if (produced_by[static_cast<size_t>(input.index)] < static_cast<int32_t>(i)) continue;
      in_order = false;
      report(problems, "{} reads %{} before it is made", name_of(program, program.ops[i]), program[input].name);
    }
  }
  if (in_order) return;
  std::vector<std::string> names;
  for (const size_t op : find_cycle(program, produced_by)) names.push_back(name_of(program, program.ops[op]));
  if (!names.empty()) report(problems, "a cycle: {} wait for each other", fmt::join(names, ", "));
}

bool attributes_fit(const Op& op) {
  if (op.attributes.size() != op.def->attributes.size()) return false;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    if (!op.attributes[i].fits(op.def->attributes[i].kind)) return false;
  }
  return true;
}

// Where output k of an op must lie.
struct Placement {
  Value storage;
  std::optional<Layout> view = {};
  bool or_copied =
      false;  // or in a storage of its own: a size that was bound may allow a view where others need a copy
};

Placement placement(const Program& program, const Op& op, const OpCall& call, size_t k) {
  for (const Overwrite& overwrite : op.def->overwrites) {
    if (static_cast<size_t>(overwrite.output) != k) continue;
    const ValueInfo& input = program[op.inputs[static_cast<size_t>(overwrite.input)]];
    return {input.storage, input.view};
  }
  if (op.def->produces_views()) {
    const ValueInfo& input = program[op.inputs[0]];
    if (const auto view = op.def->view_of(call, layout(input), static_cast<int>(k))) return {input.storage, view, true};
  }
  return {op.outputs[k]};
}

// Whether both layouts show the same elements: strides of dimensions of one element do not matter.
bool same_places(const Dims& shape, const Layout& a, const Layout& b) {
  if (shape.elements() == 0) return true;
  if (a.offset != b.offset || a.strides.rank() != b.strides.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != 1 && a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

bool has_expected_placement(const ValueInfo& value, Value self, const Placement& expected) {
  if (expected.or_copied && value.storage == self && !value.view) return true;
  if (value.storage != expected.storage || value.view.has_value() != expected.view.has_value()) return false;
  return !value.view || same_places(value.type.shape, *value.view, *expected.view);
}

void check_outputs(const Program& program, const Op& op, Problems& problems) {
  const OwnedOpCall call(program, op);
  const std::vector<Type> inferred = op.def->infer(*call);
  if (inferred.size() != op.outputs.size()) {
    return report(problems, "{} has {} outputs, expected {}", name_of(program, op), op.outputs.size(), inferred.size());
  }
  for (size_t k = 0; k < inferred.size(); ++k) {
    if (!op.outputs[k]) continue;
    const ValueInfo& value = program[op.outputs[k]];
    if (value.type != inferred[k]) {
      report(problems, "%{} is {}, but {} gives {}", value.name, value.type.text(), op.def->name, inferred[k].text());
    }
    const Placement expected = placement(program, op, *call, k);
    if (!has_expected_placement(value, op.outputs[k], expected)) {
      report(problems, "%{} does not lie where {} puts it: in the storage of %{}", value.name, op.def->name,
             program[expected.storage].name);
    }
  }
}

void check_op(const Program& program, const Op& op, Problems& problems) {
  const auto inputs = static_cast<int64_t>(op.inputs.size());
  if (inputs < op.def->least_inputs || inputs > op.def->most_inputs) {
    return report(problems, "{} has {} operands", name_of(program, op), inputs);
  }
  if (!attributes_fit(op)) return report(problems, "{} has attributes against its schema", name_of(program, op));
  try {
    check_outputs(program, op, problems);
  } catch (const ArgumentError& error) {
    problems.push_back(error.what());
  }
}

void check_sources(const Program& program, Problems& problems) {
  for (const Value value : sources(program)) {
    if (program[value].storage != value || program[value].view) {
      report(problems, "%{} comes in, so it must own its storage", program[value].name);
    }
  }
}

// Follows who wrote each storage last; a value is stale when its storage was written after it was made.
class Contents {
 public:
  Contents(const Program& program, Problems& problems)
      : program_(program),
        problems_(problems),
        produced_at_(program.values.size(), 0),
        writer_(program.values.size()) {}

  void check() {
    for (size_t i = 0; i < program_.ops.size(); ++i) step(program_.ops[i], static_cast<int>(i) + 1);
    for (const Value value : program_.outputs) read(value, "the caller");
  }

 private:
  struct Writer {
    int at = 0;  // 0: as it came
    Value output;
  };

  void step(const Op& op, int now) {
    for (const Value input : op.inputs) read(input, name_of(program_, op));
    for (const Value output : op.outputs) {
      if (output) produced_at_[static_cast<size_t>(output.index)] = now;
    }
    for (const Overwrite& overwrite : op.def->overwrites) {
      const Value output = op.outputs[static_cast<size_t>(overwrite.output)];
      if (output) write(op, overwrite, output, now);
    }
  }

  void read(Value value, std::string_view reader) {
    const Writer& writer = writer_[static_cast<size_t>(program_[value].storage.index)];
    if (produced_at_[static_cast<size_t>(value.index)] >= writer.at) return;
    report(problems_, "{} reads %{} after %{} has overwritten it", reader, program_[value].name,
           program_[writer.output].name);
  }

  void write(const Op& op, const Overwrite& overwrite, Value output, int now) {
    const Value storage = program_[output].storage;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (i == static_cast<size_t>(overwrite.input) || program_[op.inputs[i]].storage != storage) continue;
      report(problems_, "{} overwrites %{} and also reads it as %{}", name_of(program_, op), program_[storage].name,
             program_[op.inputs[i]].name);
    }
    writer_[static_cast<size_t>(storage.index)] = {now, output};
  }

  const Program& program_;
  Problems& problems_;
  std::vector<int> produced_at_;  // by value: 1 + the op's place
  std::vector<Writer> writer_;    // by storage
};

}  // namespace

std::vector<std::string> find_problems(const Program& program) {
  Problems problems;
  Places(program, problems).check();
  if (!problems.empty()) return problems;
  check_values(program, problems);
  check_writers(program, problems);
  check_order(program, problems);
  check_sources(program, problems);
  for (const Op& op : program.ops) check_op(program, op, problems);
  if (problems.empty()) Contents(program, problems).check();
  return problems;
}

void verify(const Program& program) {
  const Problems problems = find_problems(program);
  if (problems.empty()) return;
  throw ArgumentError(fmt::format("the program is not well formed: {}", fmt::join(problems, "; ")));
}

void verify_bound(const Program& program) {
  verify(program);
  for (const ValueInfo& value : program.values) {
    std::set<std::string> unbound;
    for (const Dim dim : value.type.shape) dim.collect_symbols(unbound);
    if (unbound.empty()) continue;
    throw ArgumentError(
        fmt::format("%{} is {}: bind {} to a size first", value.name, value.type.text(), fmt::join(unbound, ", ")));
  }
}

}  // namespace plimsoll::program

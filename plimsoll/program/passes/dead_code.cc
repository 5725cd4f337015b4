#include "plimsoll/program/passes/dead_code.h"

#include <algorithm>

#include "plimsoll/program/op.h"

namespace plimsoll::program {
namespace {

using Marks = std::vector<bool>;  // by value

Marks values_that_come_in(const Program& program) {
  Marks comes_in(program.values.size(), false);
  for (const auto* sources : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value source : *sources) comes_in[static_cast<size_t>(source.index)] = true;
  }
  return comes_in;
}

bool writes_what_stays(const Program& program, const Op& op, const Marks& comes_in) {
  return std::any_of(op.def->overwrites.begin(), op.def->overwrites.end(), [&](const Overwrite& overwrite) {
    const Value input = op.inputs[static_cast<size_t>(overwrite.input)];
    return comes_in[static_cast<size_t>(program[input].storage.index)];
  });
}

// Drops the ops from the last to the first and marks the values that the others read.
void drop_ops(Program& program, const Marks& comes_in) {
  Marks read(program.values.size(), false);
  for (const Value output : program.outputs) read[static_cast<size_t>(output.index)] = true;
  const auto is_read = [&](Value value) { return value && read[static_cast<size_t>(value.index)]; };
  std::vector<Op> kept;
  for (size_t i = program.ops.size(); i-- > 0;) {
    Op& op = program.ops[i];
    const bool wanted = std::any_of(op.outputs.begin(), op.outputs.end(), is_read);
    if (!wanted && !writes_what_stays(program, op, comes_in)) continue;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.def->is_optional_output(k) && !is_read(op.outputs[k])) op.outputs[k] = {};
    }
    for (const Value input : op.inputs) read[static_cast<size_t>(input.index)] = true;
    kept.push_back(std::move(op));
  }
  std::reverse(kept.begin(), kept.end());
  program.ops = std::move(kept);
}

// Where each value moves to when those that nothing makes are left out; nothing for these.
std::vector<Value> new_places(const Program& program, Marks made) {
  for (const Op& op : program.ops) {
    for (const Value output : op.outputs) {
      if (output) made[static_cast<size_t>(output.index)] = true;
    }
  }
  std::vector<Value> moved(made.size());
  int32_t next = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i]) moved[i] = {next++};
  }
  return moved;
}

void move_values(Program& program, const std::vector<Value>& moved) {
  const auto move_all = [&](std::vector<Value>& values) {
    for (Value& value : values) {
      if (value) value = moved[static_cast<size_t>(value.index)];
    }
  };
  size_t next = 0;
  for (size_t i = 0; i < program.values.size(); ++i) {
    if (!moved[i]) continue;
    program.values[i].storage = moved[static_cast<size_t>(program.values[i].storage.index)];
    if (next != i) program.values[next] = std::move(program.values[i]);
    ++next;
  }
  program.values.resize(next);
  for (auto* list : {&program.inputs, &program.parameters, &program.state, &program.outputs}) move_all(*list);
  for (Op& op : program.ops) {
    move_all(op.inputs);
    move_all(op.outputs);
  }
}

}  // namespace

Program eliminate_dead_code(Program program) {
  Marks comes_in = values_that_come_in(program);
  drop_ops(program, comes_in);
  move_values(program, new_places(program, std::move(comes_in)));
  return program;
}

}  // namespace plimsoll::program

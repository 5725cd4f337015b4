#include "plimsoll/report/dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "plimsoll/base/bytes.h"
#include "plimsoll/program/op.h"

namespace plimsoll::report {
namespace {

using program::Program;
using program::Value;

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string_view color_of(program::Phase phase) {
  switch (phase) {
    case program::Phase::forward:
      return "#dcebfa";
    case program::Phase::backward:
      return "#fae6d2";
    default:
      return "#e1f0dc";
  }
}

// From what makes the value, by op or by coming in, to a reader.
std::string edge(const Program& program, const std::vector<int32_t>& makers, Value value, std::string_view to) {
  const int32_t made_by = makers[static_cast<size_t>(value.index)];
  const std::string from = made_by < 0 ? fmt::format("v{}", value.index) : fmt::format("op{}", made_by);
  return fmt::format("  {} -> {} [label=\"{}\"];\n", from, to, format_bytes(program[value].type.spec().bytes()));
}

}  // namespace

std::string dot_graph(const Program& program, std::string_view title) {
  std::string text = fmt::format(
      "digraph step {{\n  label=\"{}\";\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n"
      "  edge [fontname=\"sans-serif\", fontsize=10];\n",
      escaped(title));
  const auto out = std::back_inserter(text);
  for (const auto* values : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *values) {
      const program::ValueInfo& info = program[value];
      fmt::format_to(out, "  v{} [shape=oval, fillcolor=\"#f0f0f0\", label=\"{}\\n{}\"];\n", value.index,
                     escaped(info.name), escaped(info.type.text()));
    }
  }
  const std::vector<int32_t> makers = program::producers(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const program::Op& op = program.ops[i];
    const auto made = std::find_if(op.outputs.begin(), op.outputs.end(), [](Value value) { return bool(value); });
    const std::string result = made == op.outputs.end()
                                   ? ""
                                   : fmt::format("\\n{} {}", escaped(program[*made].name), program[*made].type.text());
    fmt::format_to(out, "  op{} [fillcolor=\"{}\", label=\"{}{}\"];\n", i, color_of(op.phase), op.def->name, result);
    for (const Value input : op.inputs) {
      if (input) text += edge(program, makers, input, fmt::format("op{}", i));
    }
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Value output = program.outputs[i];
    fmt::format_to(out, "  out{} [shape=oval, fillcolor=\"#ffffff\", label=\"{}\"];\n", i,
                   escaped(program[output].name));
    text += edge(program, makers, output, fmt::format("out{}", i));
  }
  return text + "}\n";
}

}  // namespace plimsoll::report

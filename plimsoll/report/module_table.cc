#include "plimsoll/report/module_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "plimsoll/base/bytes.h"
#include "plimsoll/program/op.h"

namespace plimsoll::report {
namespace {

using program::Op;
using program::Program;
using program::Value;

constexpr size_t kNameColumns = 26;
constexpr size_t kOutputColumns = 18;

class TableMaker {
 public:
  TableMaker(const Program& program, int depth) : program_(program), depth_(depth) {
    for (const Value parameter : program.parameters) layers_.emplace(module_of(program[parameter].name));
    layers_.erase("");
  }

  ModuleTable make() {
    for (const Op& op : program_.ops) {
      if (op.phase == program::Phase::forward) add(op);
    }
    for (const Value parameter : program_.parameters) add_parameter(parameter);
    return std::move(table_);
  }

 private:
  void add(const Op& op) {
    for (const Value input : op.inputs) {
      if (input && is_parameter(input)) add_parameter(program_[input].storage);
    }
    const int64_t flops = program::flops(program_, op).constant();
    int64_t bytes = 0;
    for (const Value output : op.outputs) {
      if (output && program_[output].storage == output && program_[output].category == Category::activation) {
        bytes += program_[output].type.spec().bytes();
      }
    }
    const program::ValueInfo& made = program_[op.outputs[0]];
    const std::string_view own_row = row_name(made.name);
    for_each_row(own_row, [&](ModuleRow& row) {
      row.activation_bytes += bytes;
      row.forward_flops += flops;
      if (made.category == Category::activation) row.output = made.type.text();
      int64_t& most = most_flops_[row.name];
      if (row.name != own_row || (!row.op.empty() && flops <= most)) return;
      row.op = op.def->name;
      most = flops;
    });
  }

  void add_parameter(Value parameter) {
    if (!added_.insert(parameter.index).second) return;
    const TensorSpec spec = program_[parameter].type.spec();
    const std::string& name = program_[parameter].name;
    const std::string_view module = module_of(name);
    for_each_row(module.empty() ? std::string_view(name) : module, [&](ModuleRow& row) {
      row.parameters += spec.shape.elements();
      row.parameter_bytes += spec.bytes();
    });
  }

  bool is_parameter(Value value) const {
    const Value root = program_[value].storage;
    return std::find(program_.parameters.begin(), program_.parameters.end(), root) != program_.parameters.end();
  }

  // Ops of a layer, which has parameters of its own, are not told apart.
  std::string_view row_name(std::string_view output) const {
    const std::string_view module = module_of(output);
    return layers_.contains(module) ? module : output;
  }

  // The rows that a name counts for, from the whole model down to the depth.
  template <class F>
  void for_each_row(std::string_view name, const F& f) {
    f(table_.total);
    size_t dot = name.find('.');
    for (int depth = 1; depth <= depth_; ++depth) {
      f(row(name.substr(0, dot), depth));
      if (dot == name.npos) return;
      dot = name.find('.', dot + 1);
    }
  }

  ModuleRow& row(std::string_view name, int depth) {
    const auto [known, is_new] = places_.try_emplace(std::string(name), table_.rows.size());
    if (is_new) table_.rows.push_back({.name = std::string(name), .depth = depth});
    return table_.rows[known->second];
  }

  const Program& program_;
  int depth_;
  std::set<std::string_view> layers_;
  std::set<int32_t> added_;
  std::map<std::string, size_t> places_;
  std::map<std::string, int64_t> most_flops_;  // of one op of a row
  ModuleTable table_;
};

std::string line_of(std::string_view name, std::string_view output, const ModuleRow& row) {
  const auto or_dash = [](int64_t number, std::string text) {
    return number == 0 ? std::string("-") : std::move(text);
  };
  return fmt::format("  {:<{}} {:<{}} {:>11} {:>11} {:>7}\n", name, kNameColumns, output, kOutputColumns,
                     or_dash(row.parameters, format_count(row.parameters)),
                     or_dash(row.activation_bytes, format_bytes(row.activation_bytes)),
                     or_dash(row.forward_flops, format_flops(row.forward_flops)));
}

// The last part of the name, indented by its depth, and its op.
std::string label_of(const ModuleRow& row) {
  const std::string last = row.name.substr(row.name.rfind('.') + 1);
  std::string label(static_cast<size_t>(2 * (row.depth - 1)), ' ');
  label += last;
  if (!row.op.empty() && row.op != last) label += fmt::format(" ({})", row.op);
  return label;
}

nlohmann::ordered_json row_json(const ModuleRow& row) {
  return {{"parameters", row.parameters},
          {"parameter_bytes", row.parameter_bytes},
          {"activation_bytes", row.activation_bytes},
          {"forward_flops", row.forward_flops}};
}

}  // namespace

std::string_view module_of(std::string_view name) {
  for (const std::string_view prefix : {"grad.", "optimizer."}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    if (prefix == "optimizer.") name = name.substr(0, name.rfind('.'));
  }
  const size_t dot = name.rfind('.');
  return dot == name.npos ? std::string_view() : name.substr(0, dot);
}

std::string format_flops(int64_t flops) {
  constexpr std::string_view kUnits = "kMGTP";
  if (flops < 1000) return fmt::format("{}", flops);
  auto value = static_cast<double>(flops);
  size_t unit = 0;
  for (value /= 1000; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

ModuleTable module_table(const Program& program, int depth) { return TableMaker(program, depth).make(); }

std::string module_text(const ModuleTable& table) {
  std::string text = fmt::format("  {:<{}} {:<{}} {:>11} {:>11} {:>7}\n", "module", kNameColumns, "output",
                                 kOutputColumns, "parameters", "activations", "FLOPs");
  for (const ModuleRow& row : table.rows) text += line_of(label_of(row), row.output, row);
  text += line_of("together", "", table.total);
  return text + fmt::format("  parameters take {}; activations and FLOPs are of the forward pass\n",
                            format_bytes(table.total.parameter_bytes));
}

nlohmann::ordered_json module_json(const ModuleTable& table) {
  nlohmann::ordered_json json;
  json["modules"] = nlohmann::ordered_json::array();
  for (const ModuleRow& row : table.rows) {
    nlohmann::ordered_json told = {{"name", row.name}, {"depth", row.depth}, {"op", row.op}, {"output", row.output}};
    told.update(row_json(row));
    json["modules"].push_back(std::move(told));
  }
  json["total"] = row_json(table.total);
  return json;
}

}  // namespace plimsoll::report

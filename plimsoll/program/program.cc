#include "plimsoll/program/program.h"

#include <algorithm>
#include <array>

namespace plimsoll::program {
namespace {

constexpr std::array<std::string_view, 3> kPhaseNames = {"forward", "backward", "update"};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_./-").find(c) != std::string_view::npos;
}

}  // namespace

std::string_view name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

std::optional<Phase> try_parse_phase(std::string_view text) {
  const auto found = std::find(kPhaseNames.begin(), kPhaseNames.end(), text);
  if (found == kPhaseNames.end()) return std::nullopt;
  return static_cast<Phase>(found - kPhaseNames.begin());
}

Value Program::find(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return {static_cast<int32_t>(i)};
  }
  return {};
}

bool is_value_name(std::string_view name) {
  return !name.empty() && name.size() <= 500 && std::all_of(name.begin(), name.end(), is_name_character);
}

Layout layout(const ValueInfo& value) { return value.view ? *value.view : Layout{0, row_major(value.type.shape)}; }

std::vector<int32_t> producers(const Program& program) {
  std::vector<int32_t> produced_by(program.values.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (const Value output : program.ops[i].outputs) {
      if (output) produced_by[static_cast<size_t>(output.index)] = static_cast<int32_t>(i);
    }
  }
  return produced_by;
}

std::set<std::string> symbols(const Program& program) {
  std::set<std::string> found;
  for (const ValueInfo& value : program.values) {
    for (const Dim dim : value.type.shape) dim.collect_symbols(found);
  }
  return found;
}

}  // namespace plimsoll::program

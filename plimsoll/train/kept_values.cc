#include "plimsoll/train/kept_values.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

program::Value find_kept(const program::Program& program, std::string_view name) {
  for (const auto* list : {&program.parameters, &program.state}) {
    for (const program::Value value : *list) {
      if (program[value].name == name) return value;
    }
  }
  throw ArgumentError(fmt::format("there is no parameter or state {}", quote(name)));
}

}  // namespace

std::vector<std::string> kept_names(const run::Executor& executor) {
  const program::Program& program = executor.program();
  std::vector<std::string> names;
  for (const program::Value value : program.parameters) names.push_back(program[value].name);
  for (const program::Value value : program.state) {
    if (program[value].type.dtype == DType::f32) names.push_back(program[value].name);
  }
  return names;
}

std::vector<float> read_kept(run::Executor& executor, std::string_view name) {
  return run::read_floats(executor, find_kept(executor.program(), name));
}

void write_kept(run::Executor& executor, std::string_view name, std::span<const float> values) {
  run::write_floats(executor, find_kept(executor.program(), name), values);
}

}  // namespace plimsoll::train

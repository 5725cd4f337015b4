#include "plimsoll/plan/step_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "plimsoll/plan/oracle.h"

namespace plimsoll::plan {
namespace {

using program::Value;

constexpr double kRounding = 1e-9;  // of sums of times, relative

std::optional<std::string> fault_of_sizes(const StepPlan& step, int64_t batch) {
  const std::vector<int64_t>& sizes = step.sizes;
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (sizes.empty() || sum != batch) return fmt::format("the micro-batches have {} samples, the batch {}", sum, batch);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_last = i + 1 == sizes.size();
    if (is_last ? sizes[i] <= sizes.front() && sizes[i] > 0 : sizes[i] == sizes.front()) continue;
    return fmt::format("a micro-batch has {} samples, expected {}, and the last not more", sizes[i], sizes.front());
  }
  const size_t expected = sizes.size() == 1 ? 1 : sizes.back() == sizes.front() ? 2 : 3;
  if (step.programs.size() == expected) return std::nullopt;
  return fmt::format("there are {} programs, expected {}", step.programs.size(), expected);
}

// The first of what two programs both keep that lies at two places.
std::optional<std::string> find_moved(const PlannedProgram& one, const PlannedProgram& other) {
  std::map<std::string_view, int64_t> places;
  for (const Placed& placed : one.plan.resident) places[one.lowered.program[placed.owner].name] = placed.offset;
  const program::Program& program = other.lowered.program;
  for (const Placed& placed : other.plan.resident) {
    const auto found = places.find(program[placed.owner].name);
    const bool is_input = std::find(program.inputs.begin(), program.inputs.end(), placed.owner) != program.inputs.end();
    if (is_input || found == places.end() || found->second == placed.offset) continue;
    return program[placed.owner].name;
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_program(const StepPlan& step, size_t place) {
  const PlannedProgram& program = step.programs[place];
  if (const auto fault = find_fault(program.plan, program.lowered)) {
    return step.in_micro_batches() ? fmt::format("program {}: {}", place, *fault) : *fault;
  }
  if (step.in_micro_batches() && program.plan.micro_batches != step.sizes) {
    return fmt::format("program {} is for other micro-batches than the step", place);
  }
  if (const auto moved = find_moved(step.programs[0], program)) {
    return fmt::format("program {} keeps %{} at another place than program 0", place, *moved);
  }
  return std::nullopt;
}

// How often each program runs in a step: the micro-batch, the last micro-batch, the update.
double runs_of(const StepPlan& step, size_t place) {
  if (place > 0) return 1;
  return static_cast<double>(step.sizes.size() - (step.programs.size() == 3 ? 1 : 0));
}

}  // namespace

std::optional<std::string> find_fault(const StepPlan& step, int64_t batch) {
  if (const auto fault = fault_of_sizes(step, batch)) return fault;
  int64_t arena = 0;
  double seconds = 0;
  for (size_t i = 0; i < step.programs.size(); ++i) {
    if (const auto fault = fault_of_program(step, i)) return fault;
    arena = std::max(arena, step.programs[i].plan.arena_bytes);
    seconds += runs_of(step, i) * step.programs[i].plan.predicted_s;
  }
  if (arena != step.arena_bytes) return fmt::format("the step takes {} bytes, stated are {}", arena, step.arena_bytes);
  if (arena > step.budget_bytes) return fmt::format("the step takes {} bytes of {}", arena, step.budget_bytes);
  if (!(std::abs(seconds - step.predicted_s) <= kRounding * seconds)) {
    return fmt::format("the step takes {} s, stated are {}", seconds, step.predicted_s);
  }
  return std::nullopt;
}

}  // namespace plimsoll::plan

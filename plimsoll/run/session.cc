#include "plimsoll/run/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"

namespace plimsoll::run {
namespace {

using program::Value;

std::vector<Planned> one(Planned planned) {
  std::vector<Planned> programs;
  programs.push_back(std::move(planned));
  return programs;
}

int64_t largest_arena(const std::vector<Planned>& programs) {
  int64_t bytes = 0;
  for (const Planned& planned : programs) bytes = std::max(bytes, planned.arena_bytes());
  return bytes;
}

std::vector<Value> kept(const program::Program& program) {
  std::vector<Value> values = program.parameters;
  values.insert(values.end(), program.state.begin(), program.state.end());
  return values;
}

void require_same_places(const Planned& first, const Planned& other) {
  const program::Program& program = first.lowered.program;
  const std::vector<Value> here = kept(program);
  const std::vector<Value> there = kept(other.lowered.program);
  for (size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const bool same =
        here.size() == there.size() && program[here[i]].name == other.lowered.program[there[i]].name &&
        first.memory.offset_of(program, here[i]) == other.memory.offset_of(other.lowered.program, there[i]);
    if (same) continue;
    throw ArgumentError(fmt::format("programs that take turns in one arena do not keep the same: %{}",
                                    i < here.size() ? program[here[i]].name : other.lowered.program[there[i]].name));
  }
}

}  // namespace

Planned plan_as_it_is(program::Program program, const kernels::DeviceOptions& device) {
  kernels::Lowered lowered = kernels::prepare(std::move(program), device);
  plan::MemoryPlan memory = plan::plan_memory(lowered);
  return {std::move(lowered), std::move(memory)};
}

Session::Session(program::Program program, const kernels::DeviceOptions& device, const Budget& budget)
    : Session(one(plan_as_it_is(std::move(program), device)), budget) {}

Session::Session(std::vector<Planned> programs, const Budget& budget)
    : pages_(FilePages::host(host_page_bytes(largest_arena(programs)))),
      arena_(pages_, largest_arena(programs), budget) {
  for (size_t i = 1; i < programs.size(); ++i) require_same_places(programs[0], programs[i]);
  for (Planned& planned : programs) {
    executors_.emplace_back(std::move(planned.lowered), std::move(planned.memory), arena_);
  }
}

}  // namespace plimsoll::run

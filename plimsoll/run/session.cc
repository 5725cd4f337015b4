#include "plimsoll/run/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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

// Where parameters and state lie, by name.
std::map<std::string_view, int64_t> kept(const program::Program& program, const plan::MemoryPlan& memory) {
  std::map<std::string_view, int64_t> places;
  for (const auto* list : {&program.parameters, &program.state}) {
    for (const Value value : *list) places[program[value].name] = memory.offset_of(program, value);
  }
  return places;
}

// State that only one of them has lies in a file.
void require_same_places(const std::map<std::string_view, int64_t>& here, const Planned& other) {
  for (const auto& [name, offset] : kept(other.lowered.program, other.memory)) {
    const auto found = here.find(name);
    if (found == here.end() || found->second == offset) continue;
    throw ArgumentError(fmt::format("programs that take turns in one arena keep %{} at different places", name));
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

Session::Session(std::vector<Planned> programs, const Budget& budget, Arena::Pages pages)
    : device_(device::find_device(programs.at(0).lowered.device)),
      pages_(device_.pages(largest_arena(programs))),
      arena_(*pages_, largest_arena(programs), budget, pages),
      stream_(device_.stream({.threads = programs.at(0).lowered.threads})) {
  const auto here = kept(programs[0].lowered.program, programs[0].memory);
  for (size_t i = 1; i < programs.size(); ++i) require_same_places(here, programs[i]);
  for (Planned& planned : programs) {
    executors_.emplace_back(std::move(planned.lowered), std::move(planned.memory), arena_, stream_);
  }
}

std::unique_ptr<Executor> Session::join(Planned planned) {
  require_same_places(kept(executor().program(), executor().memory()), planned);
  return std::make_unique<Executor>(std::move(planned.lowered), std::move(planned.memory), arena_, stream_);
}

}  // namespace plimsoll::run

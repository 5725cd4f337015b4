#include "plimsoll/run/session.h"

namespace plimsoll::run {

Session::Session(program::Program program, const kernels::DeviceOptions& device, const Budget& budget)
    : Session(plan(std::move(program), device), budget) {}

Session::Session(Planned planned, const Budget& budget)
    : pages_(FilePages::host(host_page_bytes(planned.plan.placement.arena_bytes))),
      arena_(pages_, planned.plan.placement.arena_bytes, budget),
      executor_(std::move(planned.lowered), std::move(planned.plan), arena_) {}

Session::Planned Session::plan(program::Program program, const kernels::DeviceOptions& device) {
  kernels::Lowered lowered = kernels::prepare(std::move(program), device);
  plan::MemoryPlan memory = plan::plan_memory(lowered);
  return {std::move(lowered), std::move(memory)};
}

}  // namespace plimsoll::run

#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/plan/rewrite.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;
using program::Op;
using program::Program;
using program::Value;

// The program's own steps in its order.
std::vector<Step> own_steps(const Lowered& lowered) {
  std::vector<Step> steps;
  for (size_t op = 0; op < lowered.ops.size(); ++op) {
    const auto place = static_cast<int32_t>(op);
    if (!takes_a_step(lowered, place)) continue;
    Step step{StepKind::run, place, {}, 0};
    for (const Value owner : storages_made_by(lowered.program, lowered.program.ops[op])) step.writes.push_back({owner});
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<Placed> place_resident(const Program& program, const MemoryPlan& memory) {
  std::vector<Placed> resident;
  for (const auto* list : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *list) resident.push_back({value, memory.offset_of(program, value)});
  }
  return resident;
}

// Gives every step its offsets and the plan its arena.
void place_steps(Plan& plan, const Lowered& lowered) {
  const Rewritten rewritten = rewrite(lowered, plan.steps);
  const MemoryPlan memory = plan_memory(rewritten.lowered);
  const Program& program = rewritten.lowered.program;
  plan.arena_bytes = memory.placement.arena_bytes;
  plan.resident = place_resident(program, memory);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Rewritten::Made& made = rewritten.steps[i];
    for (size_t k = 0; k < made.owners.size(); ++k) {
      plan.steps[i].writes[k].offset = memory.offset_of(program, made.owners[k]);
    }
    plan.steps[i].scratch_offset = memory.scratch_offset(made.op);
  }
}

}  // namespace

std::variant<Plan, Refusal> make_plan(const Lowered& lowered, const PlanOptions& options) {
  Plan plan;
  plan.program = fingerprint(lowered);
  plan.budget_bytes = options.budget_bytes;
  plan.steps = own_steps(lowered);
  place_steps(plan, lowered);
  plan.unplanned_bytes = plan.arena_bytes;
  if (plan.arena_bytes <= options.budget_bytes) return plan;
  Refusal refusal;
  refusal.budget_bytes = options.budget_bytes;
  refusal.smallest_bytes = plan.arena_bytes;
  return refusal;
}

}  // namespace plimsoll::plan

#include "plimsoll/train/fit.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/process.h"

namespace plimsoll::train {
namespace {

constexpr int kTries = 3;  // the overhead of a plan is known when its kernels are bound

std::unique_ptr<run::Session> bind(plan::StepPlan& step, const Budget& budget) {
  std::vector<run::Planned> programs;
  for (plan::PlannedProgram& program : step.programs) {
    plan::Applied applied = plan::apply(program.plan, program.lowered);
    program.lowered = {};
    programs.push_back({std::move(applied.lowered), std::move(applied.memory)});
  }
  return std::make_unique<run::Session>(std::move(programs), budget);
}

int64_t trimmed_overhead() {
  trim_heap();
  return overhead_bytes();
}

}  // namespace

// A table entry of 8 bytes for each page of 4 KiB is a 512th; the rest is for stacks and what libraries take late.
int64_t margin_for(int64_t budget_bytes) { return 8 * kMiB + budget_bytes / 256; }

std::variant<Fit, NoFit> fit_step(const plan::StepForms& forms, const Budget& budget,
                                  const plan::PlanOptions& options) {
  Fit fit;
  fit.margin_bytes = margin_for(budget.bytes);
  fit.overhead_bytes = trimmed_overhead();
  for (int i = 0; i < kTries; ++i) {
    plan::PlanOptions asked = options;
    asked.budget_bytes = std::max<int64_t>(0, budget.bytes - fit.overhead_bytes - fit.margin_bytes);
    auto planned = plan::plan_step(forms, asked);
    if (auto* refusal = std::get_if<plan::Refusal>(&planned)) {
      return NoFit{fit.overhead_bytes, fit.margin_bytes, std::move(*refusal)};
    }
    fit.plan = std::move(std::get<plan::StepPlan>(planned));
    fit.arena_budget_bytes = asked.budget_bytes;
    fit.session.reset();
    fit.session = bind(fit.plan, budget);
    fit.overhead_bytes = trimmed_overhead();
    if (fit.plan.arena_bytes + fit.overhead_bytes + fit.margin_bytes <= budget.bytes) return fit;
  }
  plan::Refusal refusal;
  refusal.smallest_bytes = fit.plan.arena_bytes;
  return NoFit{fit.overhead_bytes, fit.margin_bytes, std::move(refusal)};
}

}  // namespace plimsoll::train

// From a step and a budget for the whole process to a session that stays within it. What is not the arena (code,
// libraries, kernels, stacks) is measured once the kernels are bound; where that is more than was assumed, the step is
// planned again for what is left.
#pragma once

#include <memory>
#include <variant>

#include "plimsoll/plan/parts.h"
#include "plimsoll/run/session.h"

namespace plimsoll::train {

struct Fit {
  plan::StepPlan plan;         // its programs have been moved into the session: figures only
  int64_t overhead_bytes = 0;  // measured with the kernels bound
  int64_t margin_bytes = 0;    // kept free for what the run itself takes: stacks that grow, the kernel's page tables
  int64_t arena_budget_bytes = 0;
  std::unique_ptr<run::Session> session;  // executors in the order of plan.programs
};

// In bytes of the whole process.
struct NoFit {
  int64_t overhead_bytes = 0;
  int64_t margin_bytes = 0;
  plan::Refusal refusal;  // of the arena

  int64_t smallest_budget_bytes() const { return refusal.smallest_bytes + overhead_bytes + margin_bytes; }
};

int64_t margin_for(int64_t budget_bytes);

std::variant<Fit, NoFit> fit_step(const plan::StepForms& forms, const Budget& budget,
                                  const plan::PlanOptions& options = {});

}  // namespace plimsoll::train

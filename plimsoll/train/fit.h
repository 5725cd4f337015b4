// From a step and a budget for the whole process to a session that stays within it. Timing kernels, planning and
// running are phases of one budget: each gives back what it took before the next one starts. What is not the arena
// (code, libraries, kernels, stacks, the kernel's own) is booked before the step is planned (overhead.h) and measured
// once its kernels are bound; where that is more than was booked, the step is planned again for what is left.
#pragma once

#include <functional>
#include <memory>
#include <variant>

#include "plimsoll/memory/spill_file.h"
#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/run/session.h"

namespace plimsoll::train {

struct Fit {
  plan::StepPlan plan;               // its programs have been moved into the session: figures only
  int64_t overhead_bytes = 0;        // beside the arena, measured with the kernels bound, and what the run adds
  int64_t predicted_peak_bytes = 0;  // of the process from its start to the end of the run: no less than it takes
  int64_t margin_bytes = 0;          // of the budget, above that
  int64_t arena_budget_bytes = 0;
  std::unique_ptr<run::Session> session;  // executors in the order of plan.programs
};

struct NoFit {
  int64_t overhead_bytes = 0;  // as it was booked, beside the arena and the steps of a plan
  plan::Refusal refusal;       // of the arena and the steps
  int64_t planning_bytes = 0;  // that the process took to find this out; 0: no more than before
  bool is_of_card = false;     // the budget is of a card's memory, not of the process

  // Of the whole process in whole pages, or of the card. A run within it fits.
  int64_t smallest_budget_bytes() const;
  // What of it is the arena, and what is beside it.
  int64_t smallest_arena_bytes() const;
  int64_t smallest_overhead_bytes() const;
};

// The other ranks of a run (rank_part.h), which go through the same calls. Nothing: this process is alone.
struct Peers {
  // One plan or refusal for all, in place of plan::plan_step.
  std::function<std::variant<plan::StepPlan, plan::Refusal>(const plan::StepForms&, const plan::PlanOptions&)> plan;
  std::function<int64_t(int64_t)> least;  // over all ranks
};

// A plan's programs bound to an arena of their own; they move out of the plan. ResourceExhausted when it is above the
// budget.
std::unique_ptr<run::Session> bind_plan(plan::StepPlan& plan, const Budget& budget);

// With peers, all ranks have a Fit or all have the same NoFit: the arena is what the tightest of them leaves.
std::variant<Fit, NoFit> fit_step(const plan::StepForms& forms, const Budget& budget,
                                  const plan::PlanOptions& options = {}, const Peers& peers = {});

// The same training within another budget: what the programs keep goes to `stash` while the arena is given back and the
// step planned again, and comes back by name. Between steps; `forms` are of the same model. When it does not fit, the
// session is gone and what was kept is in the stash alone. SystemError when the disk is full, with `fit` as it was.
std::variant<Fit, NoFit> refit_step(Fit& fit, const plan::StepForms& forms, const Budget& budget,
                                    SpillFile& spill_store, const plan::PlanOptions& options = {});

}  // namespace plimsoll::train

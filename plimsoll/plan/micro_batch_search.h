// One search over the forms of a step: whole, with ops in another order, in micro-batches, in chunks. plan_step
// (micro_batches.h) calls it: with other numbers where that is allowed, and once more for each smaller budget.
#pragma once

#include <variant>

#include "plimsoll/plan/micro_batches.h"

namespace plimsoll::plan {

std::variant<StepPlan, Refusal> search_forms(const StepForms& forms, const PlanOptions& options);

// What a step takes of the budget: the arena, and its steps where they take something.
int64_t taken_bytes(const StepPlan& step, const PlanOptions& options);

void mark_cut_short(std::variant<StepPlan, Refusal>& made);

}  // namespace plimsoll::plan

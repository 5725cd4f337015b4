#include "plimsoll/plan/micro_batches.h"

#include <algorithm>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/micro_batch_search.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

constexpr int64_t kPage = 4096;

// A step as it is: its arena and its time.
struct Unplanned {
  int64_t bytes;
  double seconds;
};

Unplanned unplanned(const StepForms& forms) {
  const Lowered whole = forms.whole();
  const Costs costs = forms.costs ? forms.costs(whole) : costs_of(whole, {});
  return {plan_memory(whole).placement.arena_bytes, std::accumulate(costs.seconds.begin(), costs.seconds.end(), 0.0)};
}

// With the change; what it is worth is told beside the step without.
std::variant<StepPlan, Refusal> search_changed(const ChangedForms& changed, const PlanOptions& options,
                                               const Unplanned& before) {
  auto made = search_forms(changed.forms, options);
  if (auto* refusal = std::get_if<Refusal>(&made)) {
    refusal->unplanned_bytes = before.bytes;
    refusal->unplanned_s = before.seconds;
    return made;
  }
  auto& step = std::get<StepPlan>(made);
  const double cost_s = std::max(0.0, step.unplanned_s - before.seconds);
  step.changes.push_back({changed.kind, changed.what, 1, before.bytes - step.unplanned_bytes, cost_s});
  step.unplanned_bytes = before.bytes;
  step.unplanned_s = before.seconds;
  return made;
}

std::variant<StepPlan, Refusal> search(const StepForms& forms, const PlanOptions& options) {
  if (!forms.otherwise) return search_forms(forms, options);
  if (forms.otherwise->always) return search_changed(*forms.otherwise, options, unplanned(forms));
  PlanOptions first = options;
  first.find_smallest = false;
  first.deadline = options.deadline.share(0.5);
  auto made = search_forms(forms, first);
  const auto* refusal = std::get_if<Refusal>(&made);
  if (refusal == nullptr) return made;
  auto changed = search_changed(*forms.otherwise, options, {refusal->unplanned_bytes, refusal->unplanned_s});
  if (refusal->cut_short) mark_cut_short(changed);
  return changed;
}

// Names the least budget in whole pages that the search accepts: what is closest in a refusal may not be the least,
// for the search in one more page less may look at other plans. The plan, where that fits.
std::variant<StepPlan, Refusal> lowered_to_least(const StepForms& forms, const PlanOptions& options, Refusal refusal) {
  PlanOptions below = options;
  below.improve = below.find_smallest = false;
  below.deadline = options.deadline.share(0.5);
  int64_t less = kPage;
  while (!refusal.cut_short) {
    refusal.smallest_bytes = align_up(refusal.smallest_bytes, kPage);
    below.budget_bytes = refusal.smallest_bytes - less;
    auto made = search(forms, below);
    if (const auto* refused = std::get_if<Refusal>(&made)) {
      refusal.cut_short = refused->cut_short;
      if (less == kPage) break;
      less = kPage;
      continue;
    }
    auto& step = std::get<StepPlan>(made);
    refusal.smallest_bytes = taken_bytes(step, options);
    refusal.smallest_steps = step.steps();
    refusal.smallest_s = step.predicted_s;
    step.budget_bytes = options.budget_bytes;
    if (refusal.smallest_bytes <= options.budget_bytes) return made;
    less *= 2;  // where there is much to go, it does not go page by page
  }
  return refusal;
}

std::variant<StepPlan, Refusal> search_to_the_page(const StepForms& forms, const PlanOptions& options) {
  auto made = search(forms, options);
  auto* refusal = std::get_if<Refusal>(&made);
  if (refusal == nullptr || !options.find_smallest) return made;
  return lowered_to_least(forms, options, std::move(*refusal));
}

}  // namespace

std::variant<StepPlan, Refusal> plan_step(const StepForms& forms, const PlanOptions& options) {
  auto made = search_to_the_page(forms, options);
  const auto* step = std::get_if<StepPlan>(&made);
  if (step == nullptr || !forms.learn || !forms.learn(*step)) return made;
  return search_to_the_page(forms, options);
}

}  // namespace plimsoll::plan

#include "plimsoll/train/fit.h"

#include <algorithm>
#include <optional>
#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/train/overhead.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kPage = 4096;
constexpr int kTries = 4;

// Small models take less to run than to plan. What planning takes is measured, and differs with the budget.
constexpr int64_t kSparePlanning = 4 * kMiB;
constexpr int64_t kPlanningGrain = 2 * kMiB;

// Calls f(name, bytes of the value) for everything that the session's programs keep in the arena from step to step, the
// sums of gradients aside: they are zero between steps. Names are the same in every form of the step.
template <class F>
void for_each_kept(run::Session& session, const F& f) {
  run::Executor& executor = session.executor();
  const program::Program& program = executor.program();
  const std::vector<program::Value> spilled = program::spilled_values(program);
  for (const auto* list : {&program.parameters, &program.state}) {
    for (const program::Value value : *list) {
      const bool is_spilled = std::find(spilled.begin(), spilled.end(), value) != spilled.end();
      if (is_spilled || program[value].category == Category::gradient) continue;
      f(program[value].name, executor.bytes(value));
    }
  }
}

// With the heap given back before each program of the search is prepared, and around the timing of kernels.
plan::StepForms trimming(const plan::StepForms& forms) {
  plan::StepForms trimmed = forms;
  const auto trim_before = [](const auto& f) {
    return [f](const auto&... of) {
      trim_heap();
      return f(of...);
    };
  };
  if (forms.whole) trimmed.whole = trim_before(forms.whole);
  if (forms.micro_batch) trimmed.micro_batch = trim_before(forms.micro_batch);
  if (forms.update) trimmed.update = trim_before(forms.update);
  if (forms.formed) trimmed.formed = trim_before(forms.formed);
  if (forms.learn) trimmed.learn = trim_before(forms.learn);
  if (!forms.otherwise) return trimmed;
  plan::ChangedForms changed = *forms.otherwise;
  changed.forms = trimming(changed.forms);
  trimmed.otherwise = std::make_shared<const plan::ChangedForms>(std::move(changed));
  return trimmed;
}

Bound bound_of(const plan::StepPlan& step) {
  Bound bound{.steps = 0, .threads = step.programs[0].lowered.threads};
  for (const plan::PlannedProgram& program : step.programs) {
    bound.steps += static_cast<int64_t>(program.plan.steps.size());
  }
  return bound;
}

}  // namespace

int64_t NoFit::smallest_budget_bytes() const {
  const int64_t running = align_up(process_bytes(refusal.smallest_bytes, overhead_bytes), kPage);
  const int64_t planning = align_up(planning_bytes + kSparePlanning, kPlanningGrain);
  return planning_bytes > 0 ? std::max(running, planning) : running;
}

std::unique_ptr<run::Session> bind_plan(plan::StepPlan& step, const Budget& budget) {
  std::vector<run::Planned> programs;
  for (plan::PlannedProgram& program : step.programs) {
    plan::Applied applied = plan::apply(program.plan, program.lowered);
    program.lowered = {};
    programs.push_back({std::move(applied.lowered), std::move(applied.memory)});
  }
  return std::make_unique<run::Session>(std::move(programs), budget);
}

namespace {

// One call of fit_step.
class Fitting {
 public:
  Fitting(const plan::StepForms& forms, const Budget& budget, const plan::PlanOptions& options)
      : forms_(trimming(forms)), budget_(budget), options_(options) {
    if (forms_.rest) forms_.rest();
    trim_heap();
    held_bytes_ = process_memory().bytes();
    const kernels::Lowered whole = forms_.whole();
    threads_ = whole.threads;
    booked_ = overhead_of(static_cast<int64_t>(whole.ops.size()));
  }

  std::variant<Fit, NoFit> run() {
    int64_t overhead = booked_;
    plan::Refusal refusal;
    bool was_refused = false;
    for (int i = 0; i < kTries; ++i) {
      plan::PlanOptions asked = options_;
      asked.budget_bytes = std::max<int64_t>(0, arena_within(budget_.bytes, overhead));
      auto planned = plan::plan_step(forms_, asked);
      if (auto* refused = std::get_if<plan::Refusal>(&planned)) {
        refusal = std::move(*refused);
        overhead = std::max(booked_, overhead_of(refusal.smallest_steps));
        if (was_refused || process_bytes(refusal.smallest_bytes, overhead) > budget_.bytes) break;
        was_refused = true;  // beside the overhead of a plan that takes more steps; the smallest fits
        continue;
      }
      auto& step = std::get<plan::StepPlan>(planned);
      refusal.smallest_bytes = step.arena_bytes;
      const int64_t needed = overhead_of(bound_of(step).steps);
      if (process_bytes(step.arena_bytes, needed) > budget_.bytes) {
        overhead = std::max(overhead + kPage, needed);
        continue;
      }
      Fit fit = bind(std::move(step), asked.budget_bytes);
      if (fit.margin_bytes >= 0) return fit;
      if (planning_bytes() > budget_.bytes) break;
      overhead = std::max(overhead, needed) - fit.margin_bytes;
    }
    return NoFit{overhead, std::move(refusal), planning_bytes()};
  }

 private:
  int64_t overhead_of(int64_t steps) const {
    return booked_overhead({.steps = steps, .threads = threads_}, held_bytes_);
  }

  // The most until now, where it is of this call.
  int64_t planning_bytes() const { return process_peak_bytes() > peak_before_ ? peak_until_now() : 0; }

  Fit bind(plan::StepPlan step, int64_t arena_budget) const {
    const Bound bound = bound_of(step);
    Fit fit;
    fit.plan = std::move(step);
    fit.arena_budget_bytes = arena_budget;
    if (forms_.rest) forms_.rest();
    trim_heap();
    fit.session = bind_plan(fit.plan, budget_);
    trim_heap();
    fit.overhead_bytes = measured_overhead(bound, fit.plan.arena_bytes);
    fit.predicted_peak_bytes = std::max(process_bytes(fit.plan.arena_bytes, fit.overhead_bytes), planning_bytes());
    fit.margin_bytes = budget_.bytes - fit.predicted_peak_bytes;
    return fit;
  }

  plan::StepForms forms_;
  Budget budget_;
  plan::PlanOptions options_;
  int threads_ = 1;
  int64_t held_bytes_ = 0;  // by the process when it began
  int64_t peak_before_ = process_peak_bytes();
  int64_t booked_ = 0;  // for a plan of as many steps as the step has ops
};

}  // namespace

std::variant<Fit, NoFit> fit_step(const plan::StepForms& forms, const Budget& budget,
                                  const plan::PlanOptions& options) {
  return Fitting(forms, budget, options).run();
}

std::variant<Fit, NoFit> refit_step(Fit& fit, const plan::StepForms& forms, const Budget& budget,
                                    SpillFile& spill_store, const plan::PlanOptions& options) {
  SpillFile::Job last = -1;
  for_each_kept(*fit.session, [&](const std::string& name, std::span<std::byte> bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    last = spill_store.write(bytes.data(), size, spill_store.slot(name, size));
  });
  spill_store.wait(last);
  fit.session.reset();
  auto fitted = Fitting(forms, budget, options).run();
  if (auto* again = std::get_if<Fit>(&fitted)) {
    for_each_kept(*again->session, [&](const std::string& name, std::span<std::byte> bytes) {
      const auto size = static_cast<int64_t>(bytes.size());
      last = spill_store.read(bytes.data(), size, spill_store.slot(name, size));
    });
    spill_store.wait(last);
  }
  return fitted;
}

}  // namespace plimsoll::train

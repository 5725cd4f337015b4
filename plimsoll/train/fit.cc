#include "plimsoll/train/fit.h"

#include <algorithm>
#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/program/ops/spilled.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kLeastMargin = 8 * kMiB;
constexpr int64_t kMarginShare = 256;
constexpr int64_t kSpareOfMargin = 4;  // a quarter of it may go to an overhead that was booked too small
constexpr int64_t kPage = 4096;
constexpr int kTries = 3;  // the overhead of a plan is known when its kernels are bound

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

int64_t trimmed_overhead() {
  trim_heap();
  return overhead_bytes();
}

// What the process itself is given: as it is now, what binding the first kernels brings in, and code and tables of
// each. In coarse steps, so that it is the same each time, and the smallest budget that a refusal names is one.
int64_t booked_overhead(const plan::StepForms& forms, bool has_bound_kernels) {
  constexpr int64_t kGrain = 8 * kMiB;
  constexpr int64_t kFirstKernels = 8 * kMiB;
  constexpr int64_t kEachKernel = 16 * kKiB;
  return align_up(trimmed_overhead(), kGrain) + (has_bound_kernels ? 0 : kFirstKernels) +
         static_cast<int64_t>(forms.whole().ops.size()) * kEachKernel;
}

}  // namespace

// A table entry of 8 bytes for each page of 4 KiB is a 512th; the rest is for stacks and what libraries take late.
int64_t margin_for(int64_t budget_bytes) { return kLeastMargin + budget_bytes / kMarginShare; }

int64_t arena_within(int64_t budget_bytes, int64_t overhead_bytes) {
  return budget_bytes - overhead_bytes - margin_for(budget_bytes);
}

int64_t NoFit::smallest_budget_bytes() const {
  const int64_t without_share = refusal.smallest_bytes + overhead_bytes + kLeastMargin;
  int64_t budget = align_up(without_share + without_share / (kMarginShare - 1), kPage);
  while (arena_within(budget, overhead_bytes) < refusal.smallest_bytes) budget += kPage;
  while (arena_within(budget - kPage, overhead_bytes) >= refusal.smallest_bytes) budget -= kPage;
  return budget;
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

std::variant<Fit, NoFit> fit_beside(int64_t booked, const plan::StepForms& forms, const Budget& budget,
                                    const plan::PlanOptions& options) {
  Fit fit;
  const int64_t margin = margin_for(budget.bytes);
  for (int i = 0; i < kTries; ++i) {
    plan::PlanOptions asked = options;
    asked.budget_bytes = std::max<int64_t>(0, arena_within(budget.bytes, booked));
    auto planned = plan::plan_step(forms, asked);
    if (auto* refusal = std::get_if<plan::Refusal>(&planned)) return NoFit{booked, std::move(*refusal)};
    fit.plan = std::move(std::get<plan::StepPlan>(planned));
    fit.arena_budget_bytes = asked.budget_bytes;
    fit.session.reset();
    fit.session = bind_plan(fit.plan, budget);
    fit.overhead_bytes = trimmed_overhead();
    fit.margin_bytes = std::min(margin, budget.bytes - fit.plan.arena_bytes - fit.overhead_bytes);
    if (fit.margin_bytes >= margin - margin / kSpareOfMargin) return fit;
    booked = fit.overhead_bytes + (margin - fit.margin_bytes);  // planning again leaves a little more behind
  }
  plan::Refusal refusal;
  refusal.smallest_bytes = fit.plan.arena_bytes;
  return NoFit{fit.overhead_bytes, std::move(refusal)};
}

}  // namespace

std::variant<Fit, NoFit> fit_step(const plan::StepForms& forms, const Budget& budget,
                                  const plan::PlanOptions& options) {
  return fit_beside(booked_overhead(forms, false), forms, budget, options);
}

std::variant<Fit, NoFit> refit_step(Fit& fit, const plan::StepForms& forms, const Budget& budget, SpillFile& stash,
                                    const plan::PlanOptions& options) {
  SpillFile::Job last = -1;
  for_each_kept(*fit.session, [&](const std::string& name, std::span<std::byte> bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    last = stash.write(bytes.data(), size, stash.slot(name, size));
  });
  stash.wait(last);
  fit.session.reset();
  auto fitted = fit_beside(booked_overhead(forms, true), forms, budget, options);
  if (auto* again = std::get_if<Fit>(&fitted)) {
    for_each_kept(*again->session, [&](const std::string& name, std::span<std::byte> bytes) {
      const auto size = static_cast<int64_t>(bytes.size());
      last = stash.read(bytes.data(), size, stash.slot(name, size));
    });
    stash.wait(last);
  }
  return fitted;
}

}  // namespace plimsoll::train

#include "plimsoll/train/fit.h"

#include <algorithm>
#include <optional>
#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/device.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/train/overhead.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kPage = 4096;
constexpr int kTries = 4;

// Where a step takes less to run than to plan, against what is booked: what planning takes is measured, and differs
// with the budget.
constexpr int64_t kSparePlanning = 4 * kMiB;
constexpr int64_t kPlanningGrain = 2 * kMiB;

// What planning and binding once more leave in pieces on the heap, where the first plan took more than was booked.
constexpr int64_t kSpareAgain = 4 * kMiB;

// Calls f(name, executor, value) for everything that the session's programs keep in the arena from step to step, the
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
      f(program[value].name, executor, value);
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

int64_t whole_pages(int64_t bytes) { return bytes / kPage * kPage; }

std::vector<run::Planned> move_out(plan::StepPlan& step) {
  std::vector<run::Planned> programs;
  for (plan::PlannedProgram& program : step.programs) {
    plan::Applied applied = plan::apply(program.plan, program.lowered);
    program.lowered = {};
    programs.push_back({std::move(applied.lowered), std::move(applied.memory)});
  }
  return programs;
}

}  // namespace

int64_t NoFit::smallest_overhead_bytes() const { return overhead_bytes + refusal.smallest_steps * kStepBytes; }

int64_t NoFit::smallest_arena_bytes() const { return refusal.smallest_bytes - refusal.smallest_steps * kStepBytes; }

int64_t NoFit::smallest_budget_bytes() const {
  if (is_of_card) return refusal.smallest_bytes + overhead_bytes;
  const int64_t running = align_up(process_bytes(refusal.smallest_bytes, overhead_bytes), kPage);
  return planning_bytes <= running ? running : align_up(planning_bytes + kSparePlanning, kPlanningGrain);
}

std::unique_ptr<run::Session> bind_plan(plan::StepPlan& step, const Budget& budget) {
  return std::make_unique<run::Session>(move_out(step), budget);
}

namespace {

// One call of fit_step.
class Fitting {
 public:
  Fitting(const plan::StepForms& forms, const Budget& budget, const plan::PlanOptions& options, const Peers& peers = {})
      : forms_(trimming(forms)), budget_(budget), options_(options), peers_(peers) {
    if (forms_.rest) forms_.rest();
    trim_heap();
    const int64_t held_bytes = process_memory().bytes();
    const kernels::Lowered whole = forms_.whole();
    device::Device& device = device::find_device(whole.device);
    if (device.overhead_bytes() > 0) {
      card_ = &device;
      overhead_ = device.overhead_bytes();
      return;
    }
    const auto ops = static_cast<int64_t>(whole.ops.size());
    const Bound bound{.steps = ops, .threads = whole.threads};
    overhead_ = most(booked_overhead(bound, held_bytes) - ops * kStepBytes);
  }

  std::variant<Fit, NoFit> run() {
    NoFit no_fit;
    no_fit.overhead_bytes = overhead_;
    no_fit.is_of_card = card_ != nullptr;
    plan::PlanOptions asked = options_;
    asked.step_bytes = step_bytes();
    asked.budget_bytes = std::max<int64_t>(0, arena_left(overhead_));
    bool is_smallest = false;
    for (int i = 0; i < kTries; ++i) {
      auto planned = peers_.plan ? peers_.plan(forms_, asked) : plan::plan_step(forms_, asked);
      if (auto* refused = std::get_if<plan::Refusal>(&planned)) {
        no_fit.refusal = std::move(*refused);
        if (card_ != nullptr) no_fit.refusal.smallest_steps = 0;
        if (i == 0 || is_smallest) break;
        // By what an earlier try took there is no plan; by what the least one takes there may be.
        is_smallest = true;
        asked.budget_bytes = no_fit.refusal.smallest_bytes;
        continue;
      }
      auto& step = std::get<plan::StepPlan>(planned);
      no_fit.refusal.smallest_steps = card_ != nullptr ? 0 : step.steps();
      no_fit.refusal.smallest_bytes = step.arena_bytes + step.steps() * step_bytes();
      Fit fit = bind(std::move(step), asked.budget_bytes);
      if (fit.margin_bytes >= 0) {
        if (card_ == nullptr) fit.session->take_pages();
        return fit;
      }
      if (is_smallest || planning_bytes() > budget_.bytes) break;
      no_fit.overhead_bytes = std::max(no_fit.overhead_bytes - fit.margin_bytes, measured_beside_steps(fit));
      asked.budget_bytes = std::max<int64_t>(0, arena_left(no_fit.overhead_bytes + kSpareAgain));
    }
    no_fit.planning_bytes = planning_bytes();
    return no_fit;
  }

 private:
  // Over all ranks.
  int64_t least(int64_t value) const { return peers_.least ? peers_.least(value) : value; }
  int64_t most(int64_t value) const { return -least(-value); }

  // Steps of a plan take memory of the host; a card's budget does not see them.
  int64_t step_bytes() const { return card_ != nullptr ? 0 : kStepBytes; }
  int64_t whole_bytes(int64_t arena_bytes, int64_t overhead_bytes) const {
    return card_ != nullptr ? arena_bytes + overhead_bytes : process_bytes(arena_bytes, overhead_bytes);
  }
  int64_t arena_left(int64_t overhead_bytes) const {
    return card_ != nullptr ? budget_.bytes - overhead_bytes : whole_pages(arena_within(budget_.bytes, overhead_bytes));
  }

  // What a plan took beside its arena and steps. More than what the budget lacked, where it left some of the arena free
  // that the next one may use.
  int64_t measured_beside_steps(const Fit& fit) const { return fit.overhead_bytes - fit.plan.steps() * step_bytes(); }

  // The most until now, where it is of this call. Planning takes nothing of a card.
  int64_t planning_bytes() const {
    if (card_ != nullptr) return 0;
    return most(process_peak_bytes() > peak_before_ ? peak_until_now() : 0);
  }

  // On the host to addresses alone: a plan that takes too much with its kernels must not have taken its arena, too.
  Fit bind(plan::StepPlan step, int64_t arena_budget) const {
    const Bound bound{.steps = step.steps(), .threads = step.programs[0].lowered.threads};
    Fit fit;
    fit.plan = std::move(step);
    fit.arena_budget_bytes = arena_budget;
    if (forms_.rest) forms_.rest();
    trim_heap();
    const Arena::Pages pages = card_ != nullptr ? Arena::Pages::now : Arena::Pages::later;
    fit.session = std::make_unique<run::Session>(move_out(fit.plan), budget_, pages);
    trim_heap();
    fit.overhead_bytes = most(card_ != nullptr ? card_->overhead_bytes() : measured_overhead(bound));
    fit.predicted_peak_bytes = std::max(whole_bytes(fit.plan.arena_bytes, fit.overhead_bytes), planning_bytes());
    fit.margin_bytes = least(budget_.bytes - fit.predicted_peak_bytes);
    return fit;
  }

  plan::StepForms forms_;
  Budget budget_;
  plan::PlanOptions options_;
  Peers peers_;
  device::Device* card_ = nullptr;  // that the step runs on, where it has memory of its own; the budget is of that then
  int64_t peak_before_ = process_peak_bytes();
  int64_t overhead_ = 0;  // booked beside the arena and its steps
};

}  // namespace

std::variant<Fit, NoFit> fit_step(const plan::StepForms& forms, const Budget& budget, const plan::PlanOptions& options,
                                  const Peers& peers) {
  return Fitting(forms, budget, options, peers).run();
}

std::variant<Fit, NoFit> refit_step(Fit& fit, const plan::StepForms& forms, const Budget& budget,
                                    SpillFile& spill_store, const plan::PlanOptions& options) {
  for_each_kept(*fit.session, [&](const std::string& name, run::Executor& executor, program::Value value) {
    executor.view_bytes(value, [&](std::span<const std::byte> bytes) {
      const auto size = static_cast<int64_t>(bytes.size());
      spill_store.wait(spill_store.write(bytes.data(), size, spill_store.slot(name, size)));
    });
  });
  fit.session.reset();
  auto fitted = Fitting(forms, budget, options).run();
  if (auto* again = std::get_if<Fit>(&fitted)) {
    for_each_kept(*again->session, [&](const std::string& name, run::Executor& executor, program::Value value) {
      executor.fill_bytes(value, [&](std::span<std::byte> bytes) {
        const auto size = static_cast<int64_t>(bytes.size());
        spill_store.wait(spill_store.read(bytes.data(), size, spill_store.slot(name, size)));
      });
    });
  }
  return fitted;
}

}  // namespace plimsoll::train

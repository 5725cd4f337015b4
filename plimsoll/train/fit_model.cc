#include "plimsoll/train/fit_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/train/overhead.h"

namespace plimsoll::train {
namespace {

// State stays as it is while a run goes on.
StateForm state_of(const Fit& fit) {
  if (!fit.plan.changes.empty()) return StateForm::quantized;
  run::Session& session = *fit.session;
  const program::Program& updating = session.executor(session.executors() - 1).program();
  return program::spilled_values(updating).empty() ? StateForm::f32 : StateForm::in_file;
}

plan::PlanOptions asked_of(const ModelForms& model) {
  plan::PlanOptions asked;
  asked.recompute = model.request().recompute;
  return asked;
}

}  // namespace

std::variant<Fit, NoFit> fit_model(const ModelForms& model, const std::string& spill_dir, const Budget& budget,
                                   StateForm state, const Peers& peers) {
  plan::PlanOptions asked = asked_of(model);
  if (spill_dir.empty()) return fit_step(model.forms(state), budget, asked, peers);
  asked.spill = model.spill_in(spill_dir);
  kernels::use_spill_file(std::make_shared<SpillFile>(spill_dir));
  auto fitted = fit_step(model.forms(state), budget, asked);
  const auto* no_fit = std::get_if<NoFit>(&fitted);
  if (no_fit == nullptr || state == StateForm::quantized) return fitted;
  auto in_file = fit_step(model.forms(StateForm::in_file), budget, asked);
  const auto* neither = std::get_if<NoFit>(&in_file);
  if (neither == nullptr || neither->smallest_budget_bytes() < no_fit->smallest_budget_bytes()) return in_file;
  return fitted;
}

std::variant<Fit, NoFit> refit_model(const ModelForms& model, const std::string& spill_dir, const Budget& budget,
                                     Fit& fit) {
  SpillFile spill_store(spill_dir.empty() ? std::filesystem::temp_directory_path().string() : spill_dir);
  plan::PlanOptions asked = asked_of(model);
  if (!spill_dir.empty()) asked.spill = model.spill_in(spill_dir);
  return refit_step(fit, model.forms(state_of(fit)), budget, spill_store, asked);
}

std::vector<Alternative> alternatives_to(const ModelForms& model, const std::string& spill_dir, const Budget& budget,
                                         const NoFit& no_fit) {
  plan::PlanOptions search = asked_of(model);
  search.budget_bytes = std::max<int64_t>(0, arena_within(budget.bytes, no_fit.overhead_bytes));
  search.step_bytes = kStepBytes;
  if (!spill_dir.empty()) search.spill = model.spill_in(spill_dir);
  return find_alternatives(model.request(), search, model.why_whole());
}

std::string refusal_text(const ModelForms& model, const Budget& budget, const NoFit& no_fit,
                         const std::vector<Alternative>& ways) {
  const int64_t smallest = no_fit.smallest_budget_bytes();
  std::string text =
      fmt::format("{} does not fit in {}\n  smallest budget: {} ({} bytes), of which {} for the process itself",
                  model.request().model.name, format_bytes(budget.bytes), format_bytes(smallest),
                  format_count(smallest), format_bytes(no_fit.smallest_overhead_bytes()));
  if (!no_fit.refusal.binding_op.empty()) {
    text += fmt::format("\n  {} at once, set by {}", format_bytes(no_fit.smallest_arena_bytes()),
                        no_fit.refusal.binding_op);
  }
  if (!model.why_whole().empty()) text += fmt::format("\n  {}", model.why_whole());
  if (!ways.empty()) text += fmt::format("\n  fits with: {}", alternatives_text(ways));
  return text;
}

std::string alternatives_text(const std::vector<Alternative>& ways) {
  std::string text;
  for (const Alternative& way : ways) {
    text +=
        fmt::format("{}{} ({}, {} a sample{}{})", text.empty() ? "" : " | ", way.how(), format_bytes(way.arena_bytes),
                    format_seconds(way.seconds_a_sample), way.note.empty() ? "" : ", ", way.note);
  }
  return text;
}

}  // namespace plimsoll::train

#include "plimsoll/train/known_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"

namespace plimsoll::train {

KnownCosts::KnownCosts(Listener listener) : listener_(std::move(listener)) {
  plan::LoadedCosts loaded = plan::load_costs(path_);
  if (!loaded.note.empty()) note(loaded.note);
  table_ = std::move(loaded.table);
}

bool KnownCosts::learn(const plan::StepPlan& step) {
  plan::MeasureOptions options{.budget = {step.budget_bytes, "--budget"}};
  options.budget.bytes = std::min(options.budget.bytes, machine_budget().bytes);
  options.told = listener_.on_measure;
  const size_t known = table_.size();
  std::vector<const kernels::Lowered*> programs;
  for (const plan::PlannedProgram& program : step.programs) programs.push_back(&program.lowered);
  plan::measure_costs(programs, options, table_);
  return save_more_than(known);
}

plan::SpillOptions KnownCosts::spill_in(const std::string& folder) {
  const size_t known = table_.size();
  const plan::SpillOptions spill = plan::measure_spill(folder, table_);
  save_more_than(known);
  return spill;
}

bool KnownCosts::save_more_than(size_t known) const {
  if (table_.size() <= known) return false;
  try {
    if (!path_.empty()) plan::save_costs(path_, table_);
  } catch (const SystemError& error) {
    note(fmt::format("times of kernels are not kept: {}", error.what()));
  }
  return true;
}

void KnownCosts::note(const std::string& text) const {
  if (listener_.on_note) listener_.on_note(text);
}

}  // namespace plimsoll::train

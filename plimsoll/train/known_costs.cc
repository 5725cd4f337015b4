#include "plimsoll/train/known_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/device/device.h"

namespace plimsoll::train {

KnownCosts::KnownCosts(Listener listener) : listener_(std::move(listener)) {
  plan::LoadedCosts loaded = plan::load_costs(path_);
  if (!loaded.note.empty()) note(loaded.note);
  table_ = std::move(loaded.table);
}

bool KnownCosts::learn(const plan::StepPlan& step, double time_limit_s) {
  MeasureOptions options{.budget = {step.budget_bytes, "--budget"}, .time_limit_s = time_limit_s};
  const device::Device& device = device::find_device(step.programs.at(0).lowered.device);
  options.budget.bytes = std::min(options.budget.bytes, device.budget().bytes);
  options.on_progress = listener_.on_measure;
  std::vector<const kernels::Lowered*> programs;
  for (const plan::PlannedProgram& program : step.programs) programs.push_back(&program.lowered);
  if (!measure_costs(programs, options, table())) return false;
  save();
  return true;
}

void KnownCosts::calibrate(const std::string& device, int threads) {
  const int count = kernels::thread_count({.threads = threads});
  try {
    if (train::calibrate(device, count, {.budget = device::find_device(device).budget()}, table())) save();
  } catch (const ResourceExhausted& error) {
    note(fmt::format("{} is not calibrated: {}", device, error.report().first_line()));
  }
}

plan::SpillOptions KnownCosts::spill_in(const std::string& folder) {
  const size_t known = table().size();
  const plan::SpillOptions spill = measure_spill(folder, table_);
  if (table_.size() > known) save();
  return spill;
}

void KnownCosts::rest() {
  if (path_.empty() || !is_kept_) return;
  std::erase_if(table_,
                [](const auto& entry) { return entry.second.quiet; });  // those that are not are not in the file
  is_loaded_ = false;
}

plan::CostTable& KnownCosts::table() const {
  if (!is_loaded_) table_.merge(plan::load_costs(path_).table);
  is_loaded_ = true;
  return table_;
}

void KnownCosts::save() {
  try {
    if (!path_.empty()) plan::save_costs(path_, table_);
  } catch (const SystemError& error) {
    is_kept_ = false;
    note(fmt::format("times of kernels are not kept: {}", error.what()));
  }
}

void KnownCosts::note(const std::string& text) const {
  if (listener_.on_note) listener_.on_note(text);
}

}  // namespace plimsoll::train

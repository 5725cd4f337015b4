// A training step of a model in all forms that a plan may give it, with what is known of its costs.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "cli/session_start.h"
#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/measure.h"
#include "plimsoll/plan/parts.h"
#include "plimsoll/plan/plan_json.h"
#include "plimsoll/program/ops/spilled.h"

namespace plimsoll::cli {

inline constexpr std::string_view kBatchNormParts = "batch-norm-parts";

// How a step may be made to fit.
struct FormOptions {
  std::vector<std::string> allow = {};  // measures that change the numbers
  bool parts = true;
  bool measure = false;  // time kernels, and remember the times
};

inline bool allows_batch_norm(const std::vector<std::string>& allow) {
  for (const std::string& measure : allow) {
    if (measure != kBatchNormParts) {
      throw ArgumentError(fmt::format("--allow {}: expected {}", quote(measure), kBatchNormParts));
    }
  }
  return !allow.empty();
}

// The cost cache of this machine's user: read once, written when something was learnt.
class KnownCosts {
 public:
  KnownCosts() {
    plan::LoadedCosts loaded = plan::load_costs(path_);
    if (!loaded.note.empty()) fmt::print(stderr, "note: {}\n", loaded.note);
    table_ = std::move(loaded.table);
  }

  plan::Costs of(const kernels::Lowered& lowered) const { return plan::costs_of(lowered, table_); }

  // Times what the programs of a step run, as far as it is not known. Whether anything was learnt.
  bool learn(const plan::StepPlan& step) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    plan::MeasureOptions options{.budget = {step.budget_bytes, "--budget"}};
    options.budget.bytes = std::min(options.budget.bytes, machine_budget().bytes);
    if (terminal) {
      options.told = [](size_t done, size_t all) {
        fmt::print(stderr, "\rmeasuring kernels: {} of {}{}", done, all, done == all ? "\n" : "");
      };
    }
    const size_t known = table_.size();
    std::vector<const kernels::Lowered*> programs;
    for (const plan::PlannedProgram& program : step.programs) programs.push_back(&program.lowered);
    plan::measure_costs(programs, options, table_);
    return save_more_than(known);
  }

  // What plans need to know of the disk of a folder: measured once.
  plan::SpillOptions spill_in(const std::string& folder) {
    const size_t known = table_.size();
    const plan::SpillOptions spill = plan::measure_spill(folder, table_);
    save_more_than(known);
    return spill;
  }

 private:
  bool save_more_than(size_t known) const {
    if (table_.size() > known) save();
    return table_.size() > known;
  }

  // A cache that cannot be written is no reason not to run.
  void save() const {
    try {
      if (!path_.empty()) plan::save_costs(path_, table_);
    } catch (const SystemError& error) {
      fmt::print(stderr, "note: times of kernels are not kept: {}\n", error.what());
    }
  }

  std::string path_ = plan::cost_cache_path();
  plan::CostTable table_;
};

class ModelForms {
 public:
  // `sizes` in place of those that the options give.
  ModelForms(const ModelOptions& options, const FormOptions& form, const program::Bindings& sizes = {})
      : model_(models::find_model(options.model)),
        asked_(step_options(options)),
        device_{.threads = options.threads},
        measure_(form.measure),
        costs_(std::make_shared<KnownCosts>()),
        setting_{options.model, options.mode, options.optimizer, options.precision, {}, form.allow} {
    asked_.through_batch_norm = allows_batch_norm(form.allow);
    for (const auto& [symbol, size] : sizes) asked_.sizes[symbol] = size;
    setting_.sizes = models::bindings(model_, asked_.sizes);
    if (!asked_.training || !form.parts) return;
    places_ = models::find_slice_places(model_, asked_);
    try {
      parts_ = models::build_parts_step(model_, asked_);
    } catch (const UnsupportedError& error) {
      why_whole_ = error.what();
    }
  }

  // Optimizer state lies in the spill file where `spills`; one must be set then.
  plan::StepForms forms(bool spills = false) const {
    const int64_t spilled = spills ? kLeastSpilled : INT64_MAX;
    plan::StepForms forms{batch(), [this, spilled] {
                            return prepare(program::spill_state(models::build_step(model_, asked_), spilled));
                          }};
    forms.costs = [costs = costs_](const kernels::Lowered& lowered) { return costs->of(lowered); };
    if (measure_) forms.learn = [costs = costs_](const plan::StepPlan& step) { return costs->learn(step); };
    if (asked_.training) {
      forms.places = places_;
      forms.formed = [this, spilled](const program::StepForm& form) {
        models::StepOptions asked = asked_;
        asked.form = form;
        return prepare(program::spill_state(models::build_step(model_, asked), spilled));
      };
    }
    if (!parts_) return forms;
    const auto split = std::make_shared<program::SplitStep>(program::spill_state(parts_->split, spilled));
    forms.part = [this, split](int64_t size) { return prepare(program::bind(split->part, {{"batch", size}})); };
    forms.update = [this, split] { return prepare(split->update); };
    return forms;
  }

  void start(run::Executor& executor, uint64_t seed) const {
    if (parts_) return start_values(executor, parts_->inits, parts_->state_inits, seed);
    const models::Step step = models::build_whole_step(model_, asked_);
    start_values(executor, step.inits, step.state_inits, seed, step.quantized);
  }

  plan::SpillOptions spill_in(const std::string& folder) const { return costs_->spill_in(folder); }

  const plan::Setting& setting() const { return setting_; }
  const program::Bindings& sizes() const { return setting_.sizes; }
  int64_t batch() const { return setting_.sizes.at("batch"); }
  const models::PartsStep& parts() const { return *parts_; }
  // Why the batch cannot be taken in parts; empty when it can, or may not.
  const std::string& why_whole() const { return why_whole_; }

 private:
  static constexpr int64_t kLeastSpilled = kMiB;  // parameters below are not worth a trip to the disk

  kernels::Lowered prepare(program::Program program) const { return kernels::prepare(std::move(program), device_); }

  const models::ModelInfo& model_;
  models::StepOptions asked_;
  kernels::DeviceOptions device_;
  bool measure_;
  std::shared_ptr<KnownCosts> costs_;
  plan::Setting setting_;
  program::SlicePlaces places_;
  std::optional<models::PartsStep> parts_;
  std::string why_whole_;
};

// "the batch in 4 parts of 8, the last of 3"
inline std::string parts_text(const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return "the batch as a whole";
  std::string text = fmt::format("the batch in {} parts of {}", sizes.size(), sizes.front());
  if (sizes.back() != sizes.front()) text += fmt::format(", the last of {}", sizes.back());
  return text;
}

}  // namespace plimsoll::cli

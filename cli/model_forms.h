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
#include "plimsoll/plan/slices.h"
#include "plimsoll/program/ops/spilled.h"

namespace plimsoll::cli {

// Where optimizer state lies, and how.
enum class StateForm : uint8_t {
  any,      // in memory: in f32, or in 8 bits where that is allowed and f32 does not fit
  f32,      // in memory
  coded,    // in memory, in 8 bits
  in_file,  // in the spill file, which must be set, in f32
};

// How a step may be made to fit.
struct FormOptions {
  std::vector<std::string> allow = {};  // measures that change the numbers
  bool parts = true;
  bool measure = false;    // time kernels, and remember the times
  bool calibrate = false;  // time three of them, for estimates
};

// The cost cache of this machine's user: read once, written when something was learnt.
class KnownCosts {
 public:
  KnownCosts() {
    plan::LoadedCosts loaded = plan::load_costs(path_);
    if (!loaded.note.empty()) fmt::print(stderr, "note: {}\n", loaded.note);
    table_ = std::move(loaded.table);
  }

  // Gives back the memory of what the file has, until that is asked for.
  void rest() {
    if (path_.empty() || !is_kept_) return;
    std::erase_if(table_, [](const auto& entry) { return entry.second.quiet; });
    is_loaded_ = false;
  }

  plan::Costs of(const kernels::Lowered& lowered) { return plan::costs_of(lowered, table()); }

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
    std::vector<const kernels::Lowered*> programs;
    for (const plan::PlannedProgram& program : step.programs) programs.push_back(&program.lowered);
    if (!plan::measure_costs(programs, options, table())) return false;
    save();
    return true;
  }

  // What the CPU can do, where that is not known: three short kernels.
  void calibrate(int threads) {
    const int count = kernels::thread_count({.threads = threads});
    if (plan::calibrate("cpu", count, {.budget = machine_budget()}, table())) save();
  }

  // What plans need to know of the disk of a folder: measured once.
  plan::SpillOptions spill_in(const std::string& folder) {
    const size_t known = table().size();
    const plan::SpillOptions spill = plan::measure_spill(folder, table_);
    if (table_.size() > known) save();
    return spill;
  }

 private:
  plan::CostTable& table() {
    if (!is_loaded_) table_.merge(plan::load_costs(path_).table);
    is_loaded_ = true;
    return table_;
  }

  // A cache that cannot be written is no reason not to run.
  void save() {
    try {
      if (!path_.empty()) plan::save_costs(path_, table_);
    } catch (const SystemError& error) {
      is_kept_ = false;
      fmt::print(stderr, "note: times of kernels are not kept: {}\n", error.what());
    }
  }

  std::string path_ = plan::cost_cache_path();
  plan::CostTable table_;
  bool is_loaded_ = true;
  bool is_kept_ = true;  // what was learnt is in the file
};

class ModelForms {
 public:
  // `sizes` in place of those that the options give.
  ModelForms(const ModelOptions& options, const FormOptions& form, const program::Bindings& sizes = {})
      : model_(models::find_model(options.model)),
        f32_{step_options(options)},
        device_{.threads = options.threads},
        measure_(form.measure),
        costs_(std::make_shared<KnownCosts>()),
        setting_{options.model, options.mode, options.optimizer, options.precision, {}, form.allow} {
    if (form.calibrate) costs_->calibrate(options.threads);
    const Allowed allowed = parse_allowed(form.allow);
    f32_.asked.through_batch_norm = allowed.batch_norm_parts;
    for (const auto& [symbol, size] : sizes) f32_.asked.sizes[symbol] = size;
    setting_.sizes = models::bindings(model_, f32_.asked.sizes);
    const bool has_state = f32_.asked.training && f32_.asked.train.optimizer != program::Optimizer::sgd;
    if (allowed.eight_bit_state && has_state) coded_ = f32_;
    if (coded_) coded_->asked.train.eight_bit_state = true;
    if (f32_.asked.training && form.parts) build_parts();
  }

  plan::StepForms forms(StateForm state = StateForm::any) const {
    plan::StepForms forms = forms_of(f32_, state == StateForm::in_file ? kLeastSpilled : INT64_MAX);
    if (!coded_ || state == StateForm::f32 || state == StateForm::in_file) return forms;
    const plan::ChangedForms changed{forms_of(*coded_, INT64_MAX), std::string(kEightBitState), "optimizer state",
                                     state == StateForm::coded};
    forms.otherwise = std::make_shared<const plan::ChangedForms>(changed);
    return forms;
  }

  // With all that is allowed, needed or not: where what counts is how little will do.
  plan::StepForms least_forms() const { return forms_of(coded_ ? *coded_ : f32_, INT64_MAX); }
  bool may_code() const { return coded_.has_value(); }

  void start(run::Executor& executor, uint64_t seed) const {
    if (f32_.parts) return start_values(executor, f32_.parts->inits, f32_.parts->state_inits, seed);
    const models::Step step = models::build_whole_step(model_, f32_.asked);
    start_values(executor, step.inits, step.state_inits, seed, step.quantized);
  }

  plan::SpillOptions spill_in(const std::string& folder) const { return costs_->spill_in(folder); }

  const plan::Setting& setting() const { return setting_; }
  const program::Bindings& sizes() const { return setting_.sizes; }
  int64_t batch() const { return setting_.sizes.at("batch"); }
  // The step in parts that a plan takes.
  const program::SplitStep& split_of(const plan::StepPlan& plan) const {
    return plan.changes.empty() ? f32_.parts->split : coded_->parts->split;
  }
  // Why the batch cannot be taken in parts; empty when it can, or may not.
  const std::string& why_whole() const { return why_whole_; }

 private:
  static constexpr int64_t kLeastSpilled = kMiB;  // parameters below are not worth a trip to the disk

  // The step with its state in one form.
  struct Built {
    models::StepOptions asked;
    std::optional<models::PartsStep> parts = {};
  };

  void build_parts() {
    places_ = models::find_slice_places(model_, f32_.asked);
    try {
      f32_.parts = models::build_parts_step(model_, f32_.asked);
      if (coded_) coded_->parts = models::build_parts_step(model_, coded_->asked);
    } catch (const UnsupportedError& error) {
      why_whole_ = error.what();
    }
  }

  // The state of parameters of at least `spilled` bytes lies in the spill file.
  plan::StepForms forms_of(const Built& built, int64_t spilled) const {
    plan::StepForms forms{batch(), [this, &built, spilled] {
                            return prepare(program::spill_state(models::build_step(model_, built.asked), spilled));
                          }};
    forms.costs = [costs = costs_](const kernels::Lowered& lowered) { return costs->of(lowered); };
    forms.rest = [costs = costs_] { costs->rest(); };
    if (measure_) forms.learn = [costs = costs_](const plan::StepPlan& step) { return costs->learn(step); };
    if (built.asked.training) {
      forms.places = places_;
      forms.formed = [this, &built, spilled](const program::StepForm& form) {
        models::StepOptions asked = built.asked;
        asked.form = form;
        return prepare(program::spill_state(models::build_step(model_, asked), spilled));
      };
    }
    if (!built.parts) return forms;
    const auto split = std::make_shared<program::SplitStep>(program::spill_state(built.parts->split, spilled));
    forms.part = [this, split](int64_t size) { return prepare(program::bind(split->part, {{"batch", size}})); };
    forms.update = [this, split] { return prepare(split->update); };
    return forms;
  }

  kernels::Lowered prepare(program::Program program) const { return kernels::prepare(std::move(program), device_); }

  const models::ModelInfo& model_;
  Built f32_;
  std::optional<Built> coded_;  // where it is allowed
  kernels::DeviceOptions device_;
  bool measure_;
  std::shared_ptr<KnownCosts> costs_;
  plan::Setting setting_;
  program::SlicePlaces places_;
  std::string why_whole_;
};

// "the batch in 4 parts of 8, the last of 3"
inline std::string batch_text(const plan::StepPlan& step) {
  const std::vector<int64_t>& sizes = step.sizes;
  if (step.form.slices > 1) return fmt::format("the batch as a whole, {}", plan::slices_text(step.form));
  if (sizes.size() == 1) return "the batch as a whole";
  std::string text = fmt::format("the batch in {} parts of {}", sizes.size(), sizes.front());
  if (sizes.back() != sizes.front()) text += fmt::format(", the last of {}", sizes.back());
  return text;
}

}  // namespace plimsoll::cli

// `plimsoll train` under a budget for the whole process: the plan, what it is told of it, and the run.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/session_start.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/measure.h"
#include "plimsoll/program/ops/spilled.h"
#include "plimsoll/report/plot.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/parts_trainer.h"

namespace plimsoll::cli {

struct BudgetOptions {
  std::string budget;              // "2GiB", "auto"; empty: none
  std::vector<std::string> allow;  // measures that change the numbers
  std::string spill_dir;           // on a disk; empty: nothing is spilled
  bool strict = false;             // more than the machine has is refused
};

// A budget of zero makes no sense; one above what the machine has is told, and refused when that is asked for.
inline Budget read_budget(const BudgetOptions& options) {
  if (options.strict || options.budget == "auto") return parse_budget(options.budget, "--budget");
  const int64_t bytes = parse_bytes(options.budget);
  if (bytes == 0) throw ArgumentError("--budget is zero: expected a size like 2GiB, or auto");
  const Budget machine = machine_budget();
  if (bytes > machine.bytes) {
    fmt::print(stderr, "plimsoll: --budget is {}, but this machine has {} to give ({})\n", format_bytes(bytes),
               format_bytes(machine.bytes), machine.source);
  }
  return {bytes, "--budget"};
}

inline bool allows_batch_norm(const BudgetOptions& options) {
  bool allowed = false;
  for (const std::string& measure : options.allow) {
    if (measure != "batch-norm-parts") {
      throw ArgumentError(fmt::format("--allow {}: expected batch-norm-parts", quote(measure)));
    }
    allowed = true;
  }
  return allowed;
}

// A training step of a model in all forms that it can take.
class ModelForms {
 public:
  ModelForms(const ModelOptions& options, const BudgetOptions& budget)
      : model_(models::find_model(options.model)), asked_(step_options(options)), device_{.threads = options.threads} {
    asked_.through_batch_norm = allows_batch_norm(budget);
    sizes_ = models::bindings(model_, asked_.sizes);
    try {
      parts_ = models::build_parts_step(model_, asked_);
    } catch (const UnsupportedError& error) {
      why_whole_ = error.what();
    }
  }

  // Optimizer state lies in the spill file where `spills`; one must be set then.
  plan::StepForms forms(bool spills = false) const {
    const int64_t spilled = spills ? kLeastSpilled : INT64_MAX;
    plan::StepForms forms{sizes_.at("batch"), [this, spilled] {
                            return prepare(program::spill_state(models::build_step(model_, asked_), spilled));
                          }};
    forms.costs = [this](const kernels::Lowered& lowered) { return plan::costs_of(lowered, costs_).seconds; };
    if (!parts_) return forms;
    const auto split = std::make_shared<program::SplitStep>(program::spill_state(parts_->split, spilled));
    forms.part = [this, split](int64_t size) { return prepare(program::bind(split->part, {{"batch", size}})); };
    forms.update = [this, split] { return prepare(split->update); };
    return forms;
  }

  // What plans need to know of the disk of a folder: measured once, and remembered.
  plan::SpillOptions spill_in(const std::string& folder) {
    const size_t known = costs_.size();
    const plan::SpillOptions spill = plan::measure_spill(folder, costs_);
    const std::string path = plan::cost_cache_path();
    if (costs_.size() > known && !path.empty()) plan::save_costs(path, costs_);
    return spill;
  }

  void start(run::Executor& executor, uint64_t seed) const {
    if (parts_) return start_values(executor, parts_->inits, parts_->state_inits, seed);
    const models::Step step = models::build_whole_step(model_, asked_);
    start_values(executor, step.inits, step.state_inits, seed);
  }

  const program::Bindings& sizes() const { return sizes_; }
  const models::PartsStep& parts() const { return *parts_; }
  // Why the batch cannot be taken in parts; empty when it can.
  const std::string& why_whole() const { return why_whole_; }

 private:
  static constexpr int64_t kLeastSpilled = kMiB;  // parameters below are not worth a trip to the disk

  kernels::Lowered prepare(program::Program program) const { return kernels::prepare(std::move(program), device_); }

  const models::ModelInfo& model_;
  models::StepOptions asked_;
  kernels::DeviceOptions device_;
  program::Bindings sizes_;
  plan::CostTable costs_ = plan::load_costs(plan::cost_cache_path()).table;
  std::optional<models::PartsStep> parts_;
  std::string why_whole_;
};

inline std::string parts_text(const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return "the batch as a whole";
  std::string text = fmt::format("the batch in {} parts of {}", sizes.size(), sizes.front());
  if (sizes.back() != sizes.front()) text += fmt::format(", the last of {}", sizes.back());
  return text;
}

// What is alive at each op of the step's program that takes the most, with the overhead, against the budget.
inline void print_picture(const train::Fit& fit, const Budget& budget) {
  constexpr int kColumns = 60;
  constexpr int kRows = 6;
  std::vector<int64_t> heights = plan::live_bytes(fit.session->executor().memory().liveness);
  for (int64_t& bytes : heights) bytes += fit.overhead_bytes;
  fmt::print("  {:>10} ", format_bytes(budget.bytes));
  for (int i = 0; i < kColumns; ++i) fmt::print("╌");
  fmt::print(" budget\n");
  for (const std::string& line : report::plot(heights, kColumns, kRows, budget.bytes)) {
    fmt::print("  {:>10} {}\n", "", line);
  }
  fmt::print("  {:>10} {}\n", "",
             fit.plan.in_parts() ? "live bytes over the ops of one part" : "live bytes over the ops of the step");
}

inline void print_plan(const train::Fit& fit, const Budget& budget, int64_t unplanned_bytes) {
  print_bytes("unplanned", unplanned_bytes, "the whole batch at once");
  print_bytes("budget", budget.bytes, budget.source);
  print_bytes("overhead", fit.overhead_bytes, "code, libraries, kernels, stacks: measured");
  print_bytes("kept free", fit.margin_bytes, "for what the run takes beside that");
  print_bytes("arena", fit.plan.arena_bytes, parts_text(fit.plan.sizes));
  fmt::print("  {:<10} {:>12.3g}  seconds a step\n", "predicted", fit.plan.predicted_s);
  if (const auto file = kernels::spill_file(); file && file->bytes() > 0) {
    print_bytes("spilled", file->bytes(), fmt::format("in {}", file->folder()));
  }
  for (const plan::Measure& measure : fit.plan.programs.front().plan.measures) {
    fmt::print("  {:<10} {:>12}  saved by {} of {}, {:.1f} ms\n", "", format_bytes(measure.saved_bytes), measure.kind,
               measure.what, measure.cost_s * 1e3);
  }
  print_picture(fit, budget);
  std::fflush(stdout);  // before the progress, which goes to stderr
}

// With results in a spill file where a folder for one is given and that is fastest; with the optimizer's state there,
// too, where nothing else will do.
inline std::variant<train::Fit, train::NoFit> fit_within(ModelForms& model, const BudgetOptions& options,
                                                         const Budget& budget) {
  if (options.spill_dir.empty()) return train::fit_step(model.forms(), budget);
  plan::PlanOptions asked;
  asked.spill = model.spill_in(options.spill_dir);
  kernels::use_spill_file(std::make_shared<SpillFile>(options.spill_dir));
  auto fitted = train::fit_step(model.forms(), budget, asked);
  if (std::holds_alternative<train::Fit>(fitted)) return fitted;
  return train::fit_step(model.forms(true), budget, asked);
}

// The message of a refusal: STYLE's form, in bytes of the whole process.
inline std::string refusal_text(const ModelOptions& options, const Budget& budget, const train::NoFit& no_fit,
                                const std::string& why_whole) {
  const int64_t smallest = no_fit.smallest_budget_bytes();
  std::string text = fmt::format(
      "{} does not fit in {}\n  smallest budget: {} ({} bytes), of which {} for the process itself and {} kept free",
      options.model, format_bytes(budget.bytes), format_bytes(smallest), format_count(smallest),
      format_bytes(no_fit.overhead_bytes), format_bytes(train::margin_for(smallest)));
  if (!no_fit.refusal.binding_op.empty()) {
    text += fmt::format("\n  {} at once, set by {}", format_bytes(no_fit.refusal.smallest_bytes),
                        no_fit.refusal.binding_op);
  }
  if (!why_whole.empty()) text += fmt::format("\n  {}", why_whole);
  return text;
}

}  // namespace plimsoll::cli

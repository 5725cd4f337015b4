// `plimsoll train` under a budget for the whole process: the plan, what it is told of it, and the run.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/plan_text.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/report/plot.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/overhead.h"
#include "plimsoll/train/parts_trainer.h"

namespace plimsoll::cli {

struct BudgetOptions {
  std::string budget;       // "2GiB", "auto"; empty: none
  std::string budget_file;  // with another one, looked at between steps; empty: none
  std::string spill_dir;    // on a disk; empty: nothing is spilled
  bool strict = false;      // more than the machine has is refused
  FormOptions form = {.measure = true};
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

// A budget that others may change while a run goes on, by writing a size to a file.
class BudgetFile {
 public:
  explicit BudgetFile(std::string path) : path_(std::move(path)) {}

  // Whether the file says something new; `budget` is that then. A file that is not there or not a size is told once,
  // and the budget stays.
  bool changes(Budget& budget) {
    if (path_.empty()) return false;
    std::ifstream file(path_);
    std::string text;
    file >> text;
    if (text.empty() || text == seen_) return false;
    seen_ = text;
    try {
      const int64_t bytes = parse_bytes(text);
      if (bytes == 0 || bytes == budget.bytes) return false;
      budget = {bytes, path_};
      return true;
    } catch (const ArgumentError& error) {
      fmt::print(stderr, "note: {}: {}\n", path_, error.what());
      return false;
    }
  }

 private:
  std::string path_;
  std::string seen_;
};

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

inline void print_plan(const train::Fit& fit, const Budget& budget, std::string_view costs) {
  print_bytes("unplanned", fit.plan.unplanned_bytes, "the whole batch at once");
  print_bytes("budget", budget.bytes, budget.source);
  print_bytes("arena", fit.plan.arena_bytes, batch_text(fit.plan));
  print_bytes("overhead", fit.overhead_bytes, "code, libraries, kernels, stacks, the system's own");
  print_bytes("peak", fit.predicted_peak_bytes, "of the process, predicted");
  fmt::print("  {:<10} {:>12}  a step: {}\n", "predicted", predicted_text(fit.plan), costs);
  if (const auto file = kernels::spill_file(); file && file->bytes() > 0) {
    print_bytes("spilled", file->bytes(), fmt::format("in {}", file->folder()));
  }
  for (const plan::Measure& measure : fit.plan.measures()) {
    fmt::print("  {:<10} {:>12}  saved by {} of {}: {}\n", "", format_bytes(measure.saved_bytes), measure.kind,
               measure.what, seconds_text(measure.cost_s));
  }
  print_picture(fit, budget);
  std::fflush(stdout);  // before the progress, which goes to stderr
}

// With results in a spill file where a folder for one is given and that is fastest; with the optimizer's state there,
// too, where nothing else will do: neither does 8 bits, where that is allowed, which costs less time.
inline std::variant<train::Fit, train::NoFit> fit_within(const ModelForms& model, const BudgetOptions& options,
                                                         const Budget& budget) {
  if (options.spill_dir.empty()) return train::fit_step(model.forms(), budget);
  plan::PlanOptions asked;
  asked.spill = model.spill_in(options.spill_dir);
  kernels::use_spill_file(std::make_shared<SpillFile>(options.spill_dir));
  auto fitted = train::fit_step(model.forms(), budget, asked);
  if (std::holds_alternative<train::Fit>(fitted)) return fitted;
  return train::fit_step(model.forms(StateForm::in_file), budget, asked);
}

// State stays as it is while a run goes on.
inline StateForm state_of(const train::Fit& fit) {
  if (!fit.plan.changes.empty()) return StateForm::coded;
  run::Session& session = *fit.session;
  const program::Program& updating = session.executor(session.executors() - 1).program();
  return program::spilled_values(updating).empty() ? StateForm::f32 : StateForm::in_file;
}

// The same training within another budget; what it keeps is on the disk meanwhile.
inline std::variant<train::Fit, train::NoFit> refit_within(const ModelForms& model, const BudgetOptions& options,
                                                           const Budget& budget, train::Fit& fit) {
  const bool spills = !options.spill_dir.empty();
  SpillFile stash(spills ? options.spill_dir : std::filesystem::temp_directory_path().string());
  plan::PlanOptions asked;
  if (spills) asked.spill = model.spill_in(options.spill_dir);
  return train::refit_step(fit, model.forms(state_of(fit)), budget, stash, asked);
}

// What would fit in the arena that the budget leaves.
inline std::vector<Alternative> alternatives_to(const ModelOptions& options, const BudgetOptions& given,
                                                const Budget& budget, const train::NoFit& no_fit,
                                                const ModelForms& model) {
  plan::PlanOptions search;
  search.budget_bytes = std::max<int64_t>(0, train::arena_within(budget.bytes, no_fit.overhead_bytes));
  if (!given.spill_dir.empty()) search.spill = model.spill_in(given.spill_dir);
  return AlternativeSearch(options, given.form, search).run(model.why_whole());
}

// The message of a refusal: STYLE's form, in bytes of the whole process.
inline std::string refusal_text(const ModelOptions& options, const Budget& budget, const train::NoFit& no_fit,
                                const std::string& why_whole, const std::vector<Alternative>& ways) {
  const int64_t smallest = no_fit.smallest_budget_bytes();
  std::string text = fmt::format(
      "{} does not fit in {}\n  smallest budget: {} ({} bytes), of which {} for the process itself", options.model,
      format_bytes(budget.bytes), format_bytes(smallest), format_count(smallest), format_bytes(no_fit.overhead_bytes));
  if (!no_fit.refusal.binding_op.empty()) {
    text += fmt::format("\n  {} at once, set by {}", format_bytes(no_fit.refusal.smallest_bytes),
                        no_fit.refusal.binding_op);
  }
  if (!why_whole.empty()) text += fmt::format("\n  {}", why_whole);
  if (!ways.empty()) text += fmt::format("\n  fits with: {}", alternatives_text(ways));
  return text;
}

}  // namespace plimsoll::cli

// The outer search: whether to take a step's batch whole, in micro-batches, or in chunks where one op needs most of the
// memory there is, and in how many. Each way is planned by make_plan for the same arena; the fastest that fits wins.
// Larger micro-batches are faster (what every micro-batch pays for, such as reading all weights and adding to all
// gradients, is paid less often) until results must be computed again to make room.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/program/batch_chunks.h"

namespace plimsoll::plan {

struct StepPlan;
struct ChangedForms;

// A step in its forms (program/split_step.h, program/batch_chunks.h), prepared.
struct StepForms {
  int64_t batch = 1;
  std::function<kernels::Lowered()> whole;
  // Nothing in these two: the batch cannot be taken in micro-batches.
  std::function<kernels::Lowered(int64_t samples)> micro_batch = {};
  std::function<kernels::Lowered()> update = {};
  // The whole batch in another form, chunked at any of the places. Nothing: as it is written alone.
  std::function<kernels::Lowered(const program::StepForm& form)> formed = {};
  program::ChunkPlaces places = {};
  // Of the ops of such a program. Nothing: by roofline.
  std::function<Costs(const kernels::Lowered&)> costs = {};
  // Shown the step that was chosen: may measure what it runs. Whether `costs` now says something else; the step is then
  // planned once more.
  std::function<bool(const StepPlan&)> learn = {};
  // Called when the step is planned: what `costs` needs to know may be given back until it is asked again.
  std::function<void()> rest = {};
  // The same step with other numbers, by the user's leave: taken where this one does not fit.
  std::shared_ptr<const ChangedForms> otherwise = {};
};

// A measure that changes the numbers of a step, and the step with it.
struct ChangedForms {
  StepForms forms;
  std::string kind;     // "8-bit-state"
  std::string what;     // "optimizer state"
  bool always = false;  // also where the step would fit without it
};

struct PlannedProgram {
  kernels::Lowered lowered;
  Plan plan;
  Costs costs = {};  // of the program as it is
};

struct SecondsRange {
  double low = 0;
  double high = 0;
};

struct StepPlan {
  static constexpr int kVersion = 3;  // of its form as a file

  std::vector<int64_t> sizes = {};  // samples of each micro-batch; one for the whole batch
  program::StepForm form = {};      // of the whole batch
  // The whole step; or the micro-batch, the last micro-batch where its size differs, and the update.
  std::vector<PlannedProgram> programs = {};
  int64_t budget_bytes = 0;     // that it was made for
  int64_t arena_bytes = 0;      // all programs take turns in it
  int64_t unplanned_bytes = 0;  // the arena of the whole batch as it is
  double predicted_s = 0;
  double unplanned_s = 0;
  std::vector<Measure> changes = {};  // measures that change the numbers; not in the unplanned figures

  bool in_micro_batches() const { return programs.size() > 1; }
  int64_t steps() const;               // of all programs, each once
  int64_t file_bytes() const;          // of a spill file, which all programs share
  int64_t runs(size_t program) const;  // of a program in one step
  double bound_s() const;              // no plan in this form is faster
  bool is_cut_short() const;
  Costs costs() const;  // of the programs as they are, in sums
  // What the step may well take; where all was measured, no range but `predicted_s`.
  SecondsRange predicted_range() const;
  // What changes the numbers, the form of the step where it is not as written, and what the programs do; times and
  // costs are of a whole step. No cost is negative.
  std::vector<Measure> measures() const;
};

// So many samples in as few micro-batches of at most `most` as will do, all of one size but the last, which may be
// smaller.
std::vector<int64_t> micro_batch_sizes(int64_t batch, int64_t most);

// `op_seconds` of the options stay empty: there are several programs. The Refusal is that of the form that comes
// closest, with all changes that are allowed; its unplanned figures are of the whole batch without them. Unless it was
// cut short, its smallest budget is in whole pages of 4 KiB, any budget from there on is accepted, and one page less is
// refused; without `find_smallest` that does not hold.
std::variant<StepPlan, Refusal> plan_step(const StepForms& forms, const PlanOptions& options);

}  // namespace plimsoll::plan

// A Plan is a prepared program made to fit a budget, as plain data: what runs in which order, which results are
// computed a second time instead of being kept, and where in one arena every result lies. The same program, budget and
// costs give the same plan, on a machine that is busy as on one that is not: searches end by counting what they look
// at. Whether a plan fits, and the smallest budget, do not depend on costs either. Only a deadline changes that.
//
//   const auto made = make_plan(lowered, {.budget_bytes = 2 * kGiB});
//   if (const auto* refusal = std::get_if<Refusal>(&made)) ..;   // no plan fits: why, and what would
//   Applied applied = apply(std::get<Plan>(made), lowered);
//   Executor executor(applied.lowered, applied.memory, arena);   // runs it like any other program
//
// The meaning of a plan, by which the oracle (oracle.h) checks one without knowing how it was found:
//  - Steps run in their order. A step reads each operand where it was written last.
//  - `run` is an op's first run, once for each op that does work; views take no step. `recompute` runs an op again from
//    operands with the same content and writes a new instance of its results; results that are optional and not listed
//    are not made.
//  - `spill` starts to copy a result to the spill file, `fetch` to copy one from there into memory, as a new instance
//  of
//    it. A copy goes on while the steps after it run, and is done before the step `finish_before`: until then nothing
//    is written where it reads, and nothing read or written where it writes.
//  - What comes in (inputs, parameters, state) lies at `resident` offsets all the time.
//  - A result lies where its step says until something else is written there; it may lie where an operand of the same
//    step does, if the op can work in place.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plimsoll/kernels/prepare.h"
#include "plimsoll/plan/deadline.h"
#include "plimsoll/plan/memory_plan.h"
#include "plimsoll/plan/spill_options.h"
#include "plimsoll/program/program.h"

namespace plimsoll::plan {

// What tells programs apart, and what of them differs when two do.
struct Fingerprint {
  std::string text_hash = {};     // of the program as text, 16 hexadecimal digits
  std::string scratch_hash = {};  // of the scratch of its kernels
  int64_t ops = 0;
  int64_t values = 0;
  int threads = 1;  // kernels size their scratch by it

  bool operator==(const Fingerprint&) const = default;
};

Fingerprint fingerprint(const kernels::Lowered& lowered);

// The value that owns a storage, and where in the arena it lies.
struct Placed {
  program::Value owner = {};
  int64_t offset = 0;

  bool operator==(const Placed&) const = default;
};

enum class StepKind : uint8_t { run, recompute, spill, fetch };
std::string_view name(StepKind kind);

struct Step {
  StepKind kind = StepKind::run;
  int32_t op = 0;                   // of run and recompute: place in the program
  std::vector<Placed> writes = {};  // storages made here, in the order of the op's results; of a fetch, what it fetches
  int64_t scratch_offset = 0;       // 0 when the kernel needs none
  // Of spill and fetch alone.
  program::Value copied = {};  // owner of the storage
  int64_t file_offset = 0;     // where it lies in the file
  int32_t finish_before = 0;   // step; the number of steps: at the end

  bool is_copy() const { return kind == StepKind::spill || kind == StepKind::fetch; }

  bool operator==(const Step&) const = default;
};

// Something done to fit that the program alone would not do, with its worth: figures of what was not alive at the
// peak of the program as it was, and of the time that it takes.
struct Measure {
  std::string kind =
      {};  // "recompute" or "spill"; of a whole step also "micro-batches", "batch-chunks", "order", "8-bit-state"
  std::string what = {};  // "relu %layer1.0.relu"
  int times = 1;
  int64_t saved_bytes = 0;
  double cost_s = 0;

  bool operator==(const Measure&) const = default;
};

// For people to read: measures of one kind on ops of one name as one, "relu x12 (%layer1.0.relu, ..)", with their sums,
// in the order of the first of each.
std::vector<Measure> by_op(const std::vector<Measure>& measures);

struct Plan {
  static constexpr int kVersion = 2;

  Fingerprint program = {};
  int64_t budget_bytes = 0;     // that it was made for
  int64_t arena_bytes = 0;      // that it takes
  int64_t unplanned_bytes = 0;  // the arena of the program as it is
  int64_t file_bytes = 0;       // that it takes of a spill file
  double predicted_s = 0;
  double unplanned_s = 0;
  double bound_s = 0;                       // no plan of these measures is faster
  std::vector<int64_t> micro_batches = {};  // samples of each micro-batch; empty: the batch is not cut
  std::vector<Placed> resident = {};        // inputs, parameters and state
  std::vector<Step> steps = {};
  std::vector<Measure> measures = {};  // the most bytes saved first

  bool cut_short = false;  // the search ended at the deadline: another run may find another plan

  bool operator==(const Plan&) const = default;
};

// Why no plan fits: for programs that ask what would.
struct Refusal {
  int64_t budget_bytes = 0;
  int64_t smallest_bytes = 0;   // the smallest budget for which a plan was found; `step_bytes` of its steps included
  int64_t bound_bytes = 0;      // no plan of these measures exists below it
  std::string binding_op = {};  // whose operands, results and scratch set `bound_bytes`: "conv %layer1.0.conv1"
  struct Held {
    std::string name = {};
    int64_t bytes = 0;
  };
  int64_t resident_bytes = 0;      // what comes in, of it
  std::vector<Held> binding = {};  // what else it needs at once, the largest first
  double smallest_s = 0;           // predicted time of the plan at `smallest_bytes`
  int64_t smallest_steps = 0;      // that it takes
  int64_t unplanned_bytes = 0;     // the program as it is
  double unplanned_s = 0;

  bool cut_short = false;  // the search ended at the deadline: there may be smaller ones

  std::string text() const;  // two lines: the smallest budget, and what sets it
};

struct Progress {
  std::string trying = {};  // the form of the step that is looked at next; the rest is zero then
  int64_t work = 0;         // done so far, in steps of schedules that were looked at
  int64_t effort = 0;       // allowed for making a plan faster that fits
  int64_t live_bytes = 0;   // of the best so far
  double predicted_s = 0;
};

struct PlanOptions {
  int64_t budget_bytes = INT64_MAX;         // of the arena, and of the plan's steps where they take something:
  int64_t step_bytes = 0;                   // that each takes beside the arena
  bool recompute = true;                    // whether results may be computed again
  SpillOptions spill = {};                  // whether results may go to a file and come back
  std::span<const double> op_seconds = {};  // of each op; empty: roofline() of cost.h
  // Effort of the search for a faster plan, in steps of schedules that are looked at; small programs take less. The
  // same limit gives the same plan.
  int64_t work_limit = 60'000'000;
  bool improve = true;        // without it the first plan that fits will do, however slow
  bool find_smallest = true;  // for a refusal; without it `smallest_bytes` may be larger, and the answer comes sooner
  // Of all that the call does: nothing more is tried after it, and what is best or closest then is returned, cut short.
  // It may differ from run to run.
  Deadline deadline = {};
  std::function<void(const Progress&)> progress = nullptr;
};

// The fastest plan found that fits. ArgumentError for costs that are not one for each op.
std::variant<Plan, Refusal> make_plan(const kernels::Lowered& lowered, const PlanOptions& options = {});

// ArgumentError, which says what differs, when the plan is not of this program.
void require_same_program(const Plan& plan, const kernels::Lowered& lowered);

// A prepared program and its memory, for an Executor. Values of the program that was planned keep their places in
// `values`, so what comes in and goes out is found as before.
struct Applied {
  kernels::Lowered lowered;
  MemoryPlan memory;
};

// ArgumentError when the plan is of another program (says what differs) or places nothing for what it runs. Trusts the
// rest: ask the oracle about a plan that was read from a file.
Applied apply(const Plan& plan, const kernels::Lowered& lowered);

}  // namespace plimsoll::plan

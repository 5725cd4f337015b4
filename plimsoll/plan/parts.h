// The outer search: whether to take a step's batch whole or in parts, and in how many. Each way is planned by make_plan
// for the same arena; the fastest that fits wins. Larger parts are faster (what every part pays for, such as reading
// all weights and adding to all gradients, is paid less often) until results must be computed again to make room.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plimsoll/plan/plan.h"

namespace plimsoll::plan {

// A step in its forms (program/split_step.h), prepared.
struct StepForms {
  int64_t batch = 1;
  std::function<kernels::Lowered()> whole;
  // Nothing in these two: the batch cannot be taken in parts.
  std::function<kernels::Lowered(int64_t samples)> part = {};
  std::function<kernels::Lowered()> update = {};
  // Seconds of each op of such a program. Nothing: by roofline.
  std::function<std::vector<double>(const kernels::Lowered&)> costs = {};
};

struct PlannedProgram {
  kernels::Lowered lowered;
  Plan plan;
};

struct StepPlan {
  std::vector<int64_t> sizes;  // samples of each part; one for the whole batch
  // The whole step; or the part, the last part where its size differs, and the update.
  std::vector<PlannedProgram> programs;
  int64_t arena_bytes = 0;  // all of them take turns in it
  double predicted_s = 0;

  bool in_parts() const { return programs.size() > 1; }
};

// So many samples in as few parts of at most `most` as will do, all of one size but the last, which may be smaller.
std::vector<int64_t> part_sizes(int64_t batch, int64_t most);

// `op_seconds` of the options stay empty: there are several programs. The Refusal is that of the form that comes
// closest.
std::variant<StepPlan, Refusal> plan_step(const StepForms& forms, const PlanOptions& options);

}  // namespace plimsoll::plan

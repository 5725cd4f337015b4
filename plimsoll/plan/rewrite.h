// From the steps of a plan to a program: recomputed results are values of their own, made by clones of their ops, and
// later readers read those; so are results that were fetched, by ops that copy (program/ops/spill.h). Inside the plan
// room; callers use apply() of plan.h.
#pragma once

#include <span>
#include <vector>

#include "plimsoll/plan/plan.h"

namespace plimsoll::plan {

struct Rewritten {
  kernels::Lowered lowered;
  struct Made {
    int32_t op = 0;                      // place of the step's op in the rewritten program
    std::vector<program::Value> owners;  // of the storages that it writes, as in Step::writes
  };
  std::vector<Made> steps;  // one for each step
};

// Offsets of the steps do not matter. Values of the program keep their places; instances are added behind them.
// ArgumentError for steps that run an op twice or not at all, recompute what cannot be, fetch what was not spilled.
Rewritten rewrite(const kernels::Lowered& lowered, std::span<const Step> steps);

// Whether the op does work when its turn comes: views and results without elements take none.
bool takes_a_step(const kernels::Lowered& lowered, int32_t op);

// The owners of the storages that an op makes, in the order of its results.
std::vector<program::Value> storages_produced_by(const program::Program& program, const program::Op& op);

}  // namespace plimsoll::plan

// A step of a model as a history: which op runs when, and which tensor takes which bytes meanwhile. What pages and
// Chrome traces of `estimate`, `plan` and `train` are made of.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/plan/memory_plan.h"
#include "plimsoll/report/page.h"
#include "plimsoll/train/fit.h"

namespace plimsoll::report {

// One program of a step, and how often it runs.
struct StepPart {
  std::string name;  // "step", "micro-batch of 8", "update"
  program::Program program;
  plan::MemoryPlan memory;
  std::vector<double> seconds = {};  // of each op; empty: not known
  int64_t times = 1;

  double all_seconds() const;
};

using StepHistory = std::vector<StepPart>;

// A program as it is. `seconds` of each op.
StepHistory history_of(kernels::Lowered lowered, std::vector<double> seconds);
// Without kernels: no scratch, and no times.
StepHistory history_of(const program::Program& program);
// As planned. `costs` of the ops of a program.
StepHistory history_of(const plan::StepPlan& step, const std::function<plan::Costs(const kernels::Lowered&)>& costs);
// As it was run, with the times that ops took in the last step where the executors measured them.
StepHistory history_of(const plan::StepPlan& step, run::Session& session);

// Live bytes at each op of a part, by category.
std::vector<std::array<int64_t, kAllCategories.size()>> live_by_category(const StepPart& part);

// "conv %layer1.0.conv1"
std::string op_text(const program::Program& program, size_t op);

// The most bytes alive at one op.
int64_t live_peak_bytes(const StepHistory& history);

// Adds the history to the page's timelines, each part once; returns its place there.
uint32_t add_timeline(Page& page, PageLabels& labels, const StepHistory& history, const std::string& name);

}  // namespace plimsoll::report

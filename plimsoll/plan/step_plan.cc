// What a StepPlan (micro_batches.h) says of itself.
#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/plan/batch_chunks.h"
#include "plimsoll/plan/micro_batches.h"

namespace plimsoll::plan {
namespace {

// The form of the step; kind and text.
Measure form_of(const StepPlan& step) {
  if (step.in_micro_batches())
    return {"micro-batches", fmt::format("{} micro-batches of {}", step.sizes.size(), step.sizes.front())};
  if (step.form.chunks > 1) return {"batch-chunks", chunks_text(step.form)};
  if (!step.form.sink_ops) return {"order", "sums over ranks waited for at once"};
  return {"order", "ops as late as their results allow"};
}

// What the form saves beside changes of the numbers, were nothing computed again, and what it costs.
Measure measure_of_form(const StepPlan& step) {
  Measure measure = form_of(step);
  measure.cost_s = -step.unplanned_s;
  int64_t largest = 0;
  for (size_t i = 0; i < step.programs.size(); ++i) {
    largest = std::max(largest, step.programs[i].plan.unplanned_bytes);
    measure.cost_s += static_cast<double>(step.runs(i)) * step.programs[i].plan.unplanned_s;
  }
  measure.saved_bytes = step.unplanned_bytes - largest;
  for (const Measure& change : step.changes) {
    measure.saved_bytes -= change.saved_bytes;
    measure.cost_s -= change.cost_s;
  }
  measure.cost_s = std::max(0.0, measure.cost_s);  // a way that is faster costs nothing
  return measure;
}

}  // namespace

std::vector<Measure> by_op(const std::vector<Measure>& measures) {
  struct Group {
    std::string op;  // "relu"; empty for a value alone
    std::string first;
    int count = 0;
    Measure sum = {};
  };
  std::vector<Group> groups;
  for (const Measure& measure : measures) {
    const size_t value = measure.what.find('%');
    if (value == std::string::npos) {
      groups.push_back({"", "", 1, measure});
      continue;
    }
    const std::string op = measure.what.substr(0, value);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.sum.kind == measure.kind && !other.first.empty() && other.op == op;
    });
    if (group == groups.end()) {
      groups.push_back({op, measure.what.substr(value), 1, measure});
      continue;
    }
    ++group->count;
    group->sum.times += measure.times;
    group->sum.saved_bytes += measure.saved_bytes;
    group->sum.cost_s += measure.cost_s;
  }
  std::vector<Measure> sums;
  for (Group& group : groups) {
    if (group.count > 1) group.sum.what = fmt::format("{}x{} ({}, ..)", group.op, group.count, group.first);
    sums.push_back(std::move(group.sum));
  }
  return sums;
}

std::vector<int64_t> micro_batch_sizes(int64_t batch, int64_t most) {
  if (batch < 1 || most < 1) throw ArgumentError("a batch and its micro-batches have at least one sample");
  const int64_t micro_batches = (batch + most - 1) / most;
  const int64_t size = (batch + micro_batches - 1) / micro_batches;
  std::vector<int64_t> sizes;
  for (int64_t left = batch; left > 0; left -= size) sizes.push_back(std::min(size, left));
  return sizes;
}

int64_t StepPlan::steps() const {
  int64_t steps = 0;
  for (const PlannedProgram& program : programs) steps += static_cast<int64_t>(program.plan.steps.size());
  return steps;
}

int64_t StepPlan::file_bytes() const {
  int64_t bytes = 0;
  for (const PlannedProgram& program : programs) bytes = std::max(bytes, program.plan.file_bytes);
  return bytes;
}

int64_t StepPlan::runs(size_t program) const {
  if (program > 0) return 1;
  return static_cast<int64_t>(sizes.size()) - (programs.size() == 3 ? 1 : 0);
}

double StepPlan::bound_s() const {
  double seconds = 0;
  for (size_t i = 0; i < programs.size(); ++i) seconds += static_cast<double>(runs(i)) * programs[i].plan.bound_s;
  return seconds;
}

bool StepPlan::is_cut_short() const {
  return std::any_of(programs.begin(), programs.end(),
                     [](const PlannedProgram& program) { return program.plan.cut_short; });
}

Costs StepPlan::costs() const {
  Costs sum;
  for (size_t i = 0; i < programs.size(); ++i) {
    const auto times = static_cast<double>(runs(i));
    sum.measured_s += times * programs[i].costs.measured_s;
    sum.scaled_s += times * programs[i].costs.scaled_s;
    sum.estimated_s += times * programs[i].costs.estimated_s;
  }
  return sum;
}

SecondsRange StepPlan::predicted_range() const {
  const Costs all = costs();
  if (all.all_s() <= 0) return {predicted_s, predicted_s};
  return {predicted_s * all.low_s() / all.all_s(), predicted_s * all.high_s() / all.all_s()};
}

std::vector<Measure> StepPlan::measures() const {
  std::vector<Measure> list = changes;
  if (in_micro_batches() || form != program::StepForm{}) list.push_back(measure_of_form(*this));
  for (size_t i = 0; i < programs.size(); ++i) {
    for (Measure measure : programs[i].plan.measures) {
      measure.times *= static_cast<int>(runs(i));
      measure.cost_s *= static_cast<double>(runs(i));
      list.push_back(std::move(measure));
    }
  }
  return list;
}

}  // namespace plimsoll::plan

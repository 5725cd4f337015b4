#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/plan/bounds.h"
#include "plimsoll/plan/cost.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/plan/plan_steps.h"
#include "plimsoll/plan/rewrite.h"
#include "plimsoll/plan/search.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;
using program::Op;
using program::Program;
using program::Value;

constexpr int64_t kWorkPerNode = 8000;              // beyond which the search of small programs finds nothing more
constexpr int kPackingTries = 6;                    // tighter limits on live bytes, when a schedule does not pack
constexpr int64_t kFitWork = 100'000'000;           // most steps of schedules that are looked at for any plan that fits
constexpr int64_t kSmallestWork = 100'000'000;      // and for the smallest budget
constexpr int64_t kConstructWork = 10'000;          // for each node, and
constexpr int64_t kMostConstructWork = 20'000'000;  // for what a search for a faster plan begins with
constexpr int kNarrowings = 9;                      // of the range in which the smallest budget lies
constexpr size_t kNamedTensors = 5;                 // in a refusal
constexpr int64_t kPage = 4096;

size_t at(int32_t place) { return static_cast<size_t>(place); }

std::string text_of(const Program& program, const Op& op) {
  return fmt::format("{} %{}", op.def->name, program[op.outputs[0]].name);
}

std::vector<Placed> place_resident(const Program& program, const MemoryPlan& memory) {
  std::vector<Placed> resident;
  for (const auto* list : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *list) resident.push_back({value, memory.offset_of(program, value)});
  }
  return resident;
}

// What ops cost by their arithmetic alone, the same on every machine: with it the search finds smaller plans than with
// a whole roofline.
std::vector<double> common_seconds(const Lowered& lowered) {
  return roofline_seconds(lowered, {.flops_per_s = 1e10, .conv_flops_per_s = 1e10, .bytes_per_s = 1e18, .op_s = 1e-6});
}

// A disk as one commonly is, where there is one: what fits must not depend on how fast this one is.
SpillOptions common_disk(const SpillOptions& spill) {
  if (spill.bytes_per_s == 0) return spill;
  return {.bytes_per_s = 5e8, .processor_s_per_byte = 3e-10, .least_bytes = spill.least_bytes};
}

// One call of make_plan. Whether something fits, and what the smallest budget is, is searched for with costs that are
// the same whatever was measured, and so is the answer; what was measured chooses among plans that fit.
class Planner {
 public:
  Planner(const Lowered& lowered, const PlanOptions& options)
      : lowered_(lowered),
        options_(options),
        graph_(make_step_graph(lowered, seconds(), options.spill)),
        common_graph_(make_step_graph(lowered, common_seconds(lowered), common_disk(options.spill))),
        search_(graph_, options.deadline, options.work_limit),
        common_search_(common_graph_, options.deadline, options.work_limit) {
    for (StepGraph* graph : {&graph_, &common_graph_}) {
      graph->step_bytes = options.step_bytes;
      for (GraphStorage& storage : graph->storages) storage.droppable = storage.droppable && options.recompute;
    }
    if (!options.progress) return;
    search_.tell([this](const Found& found) {
      options_.progress({{}, search_.work(), effort(), found.peak_bytes, found.seconds});
    });
  }

  std::variant<Plan, Refusal> plan() {
    find_peak();
    Plan unplanned = placed(search_, hold_all(graph_), INT64_MAX);
    unplanned_ = {unplanned.arena_bytes, unplanned.predicted_s};
    if (taken_bytes(unplanned) <= options_.budget_bytes) return finish(std::move(unplanned));
    if (!options_.recompute && !graph_.can_spill()) return refusal(unplanned, unplanned.predicted_s);
    const bool is_hopeless = least_bytes(graph_).bytes > options_.budget_bytes;
    common_search_.allow(kFitWork);
    std::optional<Fit> fit = is_hopeless ? std::nullopt : find_fit(options_.budget_bytes);
    if (!fit && options_.find_smallest) fit = find_smallest(taken_bytes(unplanned));
    if (!fit) return refusal(unplanned, unplanned.predicted_s);
    const Plan smallest = fit->plan;
    const int64_t budget = std::max(options_.budget_bytes, taken_bytes(smallest));
    Plan quick = options_.improve ? quickest(std::move(*fit), budget) : as_found(std::move(*fit));
    if (budget == options_.budget_bytes) return finish(std::move(quick));
    return refusal(smallest, quick.predicted_s);
  }

 private:
  // Decisions that fit the budget, with the limit on live bytes at which they pack.
  struct Fit {
    Found found;
    int64_t limit_bytes = 0;
    Plan plan;
  };

  void find_peak() {
    const Schedule& whole = search_.schedule(hold_all(graph_));
    bytes_at_peak_.resize(graph_.storages.size(), 0);
    for (const Instance& instance : whole.instances) {
      if (instance.first >= whole.peak_step || instance.last <= whole.peak_step) continue;
      bytes_at_peak_[at(instance.storage)] = graph_.storages[at(instance.storage)].bytes;
    }
  }

  std::vector<double> seconds() const {
    if (options_.op_seconds.empty()) return roofline_seconds(lowered_);
    if (options_.op_seconds.size() == lowered_.ops.size()) {
      return {options_.op_seconds.begin(), options_.op_seconds.end()};
    }
    throw ArgumentError(fmt::format("{} costs are given for {} ops", options_.op_seconds.size(), lowered_.ops.size()));
  }

  // Of the budget.
  int64_t taken_bytes(const Plan& plan) const { return plan.arena_bytes + steps_bytes(plan); }
  int64_t steps_bytes(const Plan& plan) const { return static_cast<int64_t>(plan.steps.size()) * options_.step_bytes; }

  // The plan of these decisions, packed into as little as the search for offsets finds, or into the budget.
  Plan placed(Search& search, const Holds& holds, int64_t budget_bytes) {
    const Schedule& schedule = search.schedule(holds);
    Plan plan;
    plan.predicted_s = schedule.seconds;
    plan.steps = plan_steps(lowered_.program, graph_, schedule);
    plan.file_bytes = file_bytes(lowered_.program, plan.steps);
    plan.measures = spills(schedule);
    const Rewritten rewritten = rewrite(lowered_, plan.steps);
    const bool minimise = budget_bytes == INT64_MAX;
    const MemoryPlan memory = plan_memory(
        rewritten.lowered, minimise ? std::nullopt : std::optional<int64_t>(budget_bytes - steps_bytes(plan)));
    const Program& program = rewritten.lowered.program;
    plan.arena_bytes = memory.placement.arena_bytes;
    plan.resident = place_resident(program, memory);
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const Rewritten::Made& made = rewritten.steps[i];
      for (size_t k = 0; k < made.owners.size(); ++k) {
        plan.steps[i].writes[k].offset = memory.offset_of(program, made.owners[k]);
      }
      plan.steps[i].scratch_offset = memory.scratch_offset(made.op);
    }
    return plan;
  }

  // Any plan within the budget, soon. What does not pack is tried again with fewer bytes alive.
  std::optional<Fit> find_fit(int64_t budget_bytes) {
    int64_t limit = budget_bytes;
    for (int i = 0; i < kPackingTries; ++i) {
      std::optional<Found> found = common_search_.find_any(limit);
      if (!found) return std::nullopt;
      Plan plan = placed(common_search_, found->holds, budget_bytes);
      const int64_t over = taken_bytes(plan) - budget_bytes;
      if (over <= 0) return Fit{std::move(*found), limit, std::move(plan)};
      limit -= over;
    }
    return std::nullopt;
  }

  // With the time that it takes as costs are.
  Plan as_found(Fit fit) {
    fit.plan.predicted_s = search_.schedule(fit.found.holds).seconds;
    return std::move(fit.plan);
  }

  // The fastest found with the effort that is allowed; what fits already is kept when nothing better packs.
  Plan quickest(Fit fit, int64_t budget_bytes) {
    search_.allow(options_.work_limit + std::min(kMostConstructWork, kConstructWork * nodes()));
    fit.found.seconds = search_.schedule(fit.found.holds).seconds;
    Plan best = fit.plan;
    best.predicted_s = fit.found.seconds;
    const auto consider = [&](const Found& found) {
      Plan plan = placed(search_, found.holds, budget_bytes);
      const int64_t over = taken_bytes(plan) - budget_bytes;
      if (over <= 0 && plan.predicted_s < best.predicted_s) best = std::move(plan);
      return over;
    };
    int64_t limit = budget_bytes;
    for (int i = 0; i < kPackingTries && !search_.is_over(); ++i) {
      std::optional<Found> found = search_.construct(limit);
      if (!found) break;
      const int64_t over = consider(search_.improve(std::move(*found), limit, effort() / (i == 0 ? 1 : 2)));
      if (over <= 0) return best;
      limit -= over;
    }
    // The budget is so tight that only the first find fits: hold what there is room for.
    int64_t room = fit.limit_bytes;
    for (int i = 0; i < kPackingTries && room >= fit.found.peak_bytes; ++i) {
      const int64_t over = consider(search_.improve(fit.found, room, effort() / 2));
      if (over <= 0) break;
      room -= over;
    }
    return best;
  }

  bool is_cut_short() const { return search_.is_out_of_time() || common_search_.is_out_of_time(); }

  int64_t nodes() const { return static_cast<int64_t>(graph_.nodes.size()); }
  int64_t effort() const { return std::min(options_.work_limit, kWorkPerNode * nodes()); }

  // The plan with the smallest arena that this search finds: below it find_fit fails.
  std::optional<Fit> find_smallest(int64_t high) {
    std::optional<Fit> best;
    const auto try_at = [&](int64_t budget_bytes) {
      std::optional<Fit> fit = find_fit(budget_bytes);
      if (!fit) return false;
      high = taken_bytes(fit->plan);
      best = std::move(fit);
      return true;
    };
    int64_t low = least_bytes(graph_).bytes;
    common_search_.allow(kSmallestWork);
    for (int i = 0; i < kNarrowings && low < high && !common_search_.is_over(); ++i) {
      const int64_t middle = low + (high - low) / 2;
      if (!try_at(middle)) low = middle + 1;
    }
    // What fits is not quite monotone: the search may fail a little below and find something further down.
    for (int64_t less = kernels::kAlignment; !common_search_.is_over();) {
      if (try_at(high - less)) {
        less *= 2;  // where there is much to go, it does not go line by line
      } else if (less == kPage) {
        break;
      } else {
        less = less < kPage ? kPage : kernels::kAlignment;
      }
    }
    return best;
  }

  Plan finish(Plan plan) {
    plan.program = fingerprint(lowered_);
    plan.budget_bytes = options_.budget_bytes;
    plan.unplanned_bytes = unplanned_.bytes;
    plan.unplanned_s = unplanned_.seconds;
    plan.bound_s = least_seconds(graph_, options_.budget_bytes);
    add_recomputes(plan);
    plan.cut_short = is_cut_short();
    return plan;
  }

  // By storage: how long steps wait for its copies.
  std::vector<Measure> spills(const Schedule& schedule) const {
    std::map<int32_t, Measure> by_storage;
    const double processor_s = graph_.spill.processor_s_per_byte;
    for (const ScheduledCopy& copy : schedule.copies) {
      const int32_t storage = schedule.instances[at(copy.instance)].storage;
      Measure& measure = by_storage[storage];
      measure.times = measure.kind.empty() ? 0 : measure.times;
      measure.times += copy.fetches ? 1 : 0;
      measure.kind = "spill";
      measure.what = "%" + lowered_.program[graph_.storages[at(storage)].owner].name;
      measure.saved_bytes = bytes_at_peak_[at(storage)];
      measure.cost_s += copy.waited_s + processor_s * static_cast<double>(graph_.storages[at(storage)].bytes);
    }
    std::vector<Measure> list;
    for (auto& [storage, measure] : by_storage) list.push_back(std::move(measure));
    return list;
  }

  // By op: what its recomputing costs, and which of its results were alive at the program's peak and need
  // not be now.
  void add_recomputes(Plan& plan) {
    std::map<int32_t, Measure> by_op;
    std::vector<double> seconds(lowered_.ops.size(), 0);
    for (const GraphNode& node : graph_.nodes) seconds[at(node.op)] = node.seconds;
    for (const Step& step : plan.steps) {
      if (step.kind != StepKind::recompute) continue;
      Measure& measure = by_op[step.op];
      measure.times = measure.kind.empty() ? 1 : measure.times + 1;
      measure.kind = "recompute";
      measure.what = text_of(lowered_.program, lowered_.program.ops[at(step.op)]);
      measure.cost_s += seconds[at(step.op)];
    }
    for (size_t place = 0; place < graph_.storages.size(); ++place) {
      const auto measure = by_op.find(graph_.nodes[at(graph_.storages[place].maker)].op);
      if (measure != by_op.end()) measure->second.saved_bytes += bytes_at_peak_[place];
    }
    std::vector<Measure>& list = plan.measures;
    for (auto& [op, measure] : by_op) list.push_back(std::move(measure));
    std::stable_sort(list.begin(), list.end(),
                     [](const Measure& a, const Measure& b) { return a.saved_bytes > b.saved_bytes; });
  }

  // `seconds`: that a step takes in the budget of the smallest plan.
  Refusal refusal(const Plan& smallest, double seconds) const {
    const MemoryBound bound = least_bytes(graph_);
    Refusal refusal;
    refusal.budget_bytes = options_.budget_bytes;
    refusal.smallest_bytes = taken_bytes(smallest);
    refusal.smallest_s = seconds;
    refusal.smallest_steps = static_cast<int64_t>(smallest.steps.size());
    refusal.unplanned_bytes = unplanned_.bytes;
    refusal.unplanned_s = unplanned_.seconds;
    refusal.bound_bytes = bound.bytes;
    refusal.cut_short = is_cut_short();
    refusal.resident_bytes = graph_.resident_bytes;
    const GraphNode& node = graph_.nodes[at(bound.node)];
    refusal.binding_op = text_of(lowered_.program, lowered_.program.ops[at(node.op)]);
    for (const auto* list : {&node.reads, &node.makes}) {
      for (const int32_t place : *list) {
        const GraphStorage& storage = graph_.storages[at(place)];
        refusal.binding.push_back({lowered_.program[storage.owner].name, storage.bytes});
      }
    }
    if (node.scratch_bytes > 0) refusal.binding.push_back({"scratch", node.scratch_bytes});
    std::stable_sort(refusal.binding.begin(), refusal.binding.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    if (refusal.binding.size() > kNamedTensors) refusal.binding.resize(kNamedTensors);
    return refusal;
  }

  const Lowered& lowered_;
  const PlanOptions& options_;
  StepGraph graph_;         // with the times that were given
  StepGraph common_graph_;  // with those that are the same everywhere
  Search search_;
  Search common_search_;
  struct {
    int64_t bytes = 0;
    double seconds = 0;
  } unplanned_;
  std::vector<int64_t> bytes_at_peak_;  // by storage: of the program as it is, beside what works then
};

}  // namespace

std::variant<Plan, Refusal> make_plan(const Lowered& lowered, const PlanOptions& options) {
  return Planner(lowered, options).plan();
}

}  // namespace plimsoll::plan

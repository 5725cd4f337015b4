#include "plimsoll/plan/parts.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/plan/cost.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

constexpr int kShare = 3;            // each of a few ways is searched with a third of the effort
constexpr double kWorthATry = 0.98;  // a way whose time can at best be above this share of the best one's is not tried

class PartsSearch {
 public:
  PartsSearch(const StepForms& forms, const PlanOptions& options) : forms_(forms), options_(options) {}

  std::variant<StepPlan, Refusal> run() && {
    try_whole();
    if (best_ && best_->programs[0].plan.measures.empty()) return std::move(*best_);
    if (can_cut()) try_parts();
    if (best_) return std::move(*best_);
    return closest_refusal();
  }

 private:
  using Made = std::optional<PlannedProgram>;

  bool can_cut() const { return forms_.part && forms_.batch > 1; }

  Made make(Lowered lowered, bool measures) {
    PlanOptions options = options_;
    options.recompute = measures && options_.recompute;
    if (!measures) options.spill = {};
    options.find_smallest = false;
    options.work_limit /= kShare;
    options.time_limit_s /= kShare;
    const std::vector<double> seconds = seconds_of(lowered);
    options.op_seconds = seconds;
    auto made = make_plan(lowered, options);
    if (auto* plan = std::get_if<Plan>(&made)) return PlannedProgram{std::move(lowered), std::move(*plan)};
    return std::nullopt;
  }

  // Of the whole batch and of one sample at a time, which needs room for sums of gradients.
  Refusal closest_refusal() {
    std::vector<Lowered> smallest;
    smallest.push_back(forms_.whole());
    if (can_cut()) smallest.push_back(forms_.part(1));
    std::optional<Refusal> closest;
    for (const Lowered& lowered : smallest) {
      auto made = make_plan(lowered, options_);
      auto* refusal = std::get_if<Refusal>(&made);
      if (refusal == nullptr) continue;
      if (!closest || refusal->smallest_bytes < closest->smallest_bytes) closest = std::move(*refusal);
    }
    return closest.value_or(Refusal());
  }

  std::vector<double> seconds_of(const Lowered& lowered) const {
    return forms_.costs ? forms_.costs(lowered) : std::vector<double>();
  }

  void try_whole() {
    if (Made whole = make(forms_.whole(), true)) {
      StepPlan step{{forms_.batch}, {}, whole->plan.arena_bytes, whole->plan.predicted_s};
      step.programs.push_back(std::move(*whole));
      offer(std::move(step));
    }
  }

  void try_parts() {
    update_ = make(forms_.update(), false);
    if (!update_) return;  // it holds the least that any part does
    const int64_t plain = largest_without_measures();
    if (plain > 0) try_size(plain, false);
    for (int64_t size = std::max<int64_t>(1, 2 * plain); size < forms_.batch; size *= 2) {
      if (best_ && time_at_best(size) > kWorthATry * best_->predicted_s) continue;
      if (!try_size(size, true)) break;  // larger ones need more
    }
  }

  // The arena of a part as it is.
  int64_t arena_of(int64_t size) {
    int64_t& bytes = arenas_[size];
    if (bytes == 0) bytes = plan_memory(forms_.part(size)).placement.arena_bytes;
    return bytes;
  }
  bool fits(int64_t size) { return arena_of(size) <= options_.budget_bytes; }

  // The largest part that fits as it is, 0 when none does. Arenas grow with the size nearly in a line, so a line
  // through what is known says where to look.
  int64_t largest_without_measures() {
    int64_t fit = 0;
    int64_t not_fit = forms_.batch;
    for (int64_t next = 1; not_fit - fit > 1; next = between(fit, not_fit)) (fits(next) ? fit : not_fit) = next;
    return fit;
  }

  int64_t between(int64_t fit, int64_t not_fit) {
    if (fit == 0) return (fit + not_fit) / 2;
    const int64_t other = fit > 1 ? 1 : 2;
    if (other == 2 && not_fit > 2 && !arenas_.contains(2)) return 2;
    const double slope = static_cast<double>(arena_of(fit) - arena_of(other)) / static_cast<double>(fit - other);
    if (slope <= 0) return (fit + not_fit) / 2;
    const double more = static_cast<double>(options_.budget_bytes - arena_of(fit)) / slope;
    const double capped = std::min(more, static_cast<double>(not_fit - fit));
    return std::clamp(fit + static_cast<int64_t>(capped), fit + 1, not_fit - 1);
  }

  // Were nothing computed twice.
  double time_at_best(int64_t size) {
    const Lowered lowered = forms_.part(size);
    std::vector<double> seconds = seconds_of(lowered);
    if (seconds.empty()) seconds = roofline_seconds(lowered);
    const auto parts = static_cast<double>(part_sizes(forms_.batch, size).size());
    return parts * std::accumulate(seconds.begin(), seconds.end(), 0.0) + update_->plan.predicted_s;
  }

  // Whether it fits.
  bool try_size(int64_t most, bool measures) {
    StepPlan step{part_sizes(forms_.batch, most), {}, 0, 0};
    Made part = make(forms_.part(step.sizes.front()), measures);
    if (!part) return false;
    const auto count = static_cast<double>(step.sizes.size());
    step.predicted_s = count * part->plan.predicted_s + update_->plan.predicted_s;
    step.programs.push_back(std::move(*part));
    if (step.sizes.back() != step.sizes.front()) {
      Made last = make(forms_.part(step.sizes.back()), measures);
      if (!last) return false;
      step.predicted_s += last->plan.predicted_s - step.programs.front().plan.predicted_s;
      step.programs.push_back(std::move(*last));
    }
    step.programs.push_back(*update_);
    for (PlannedProgram& program : step.programs) {
      program.plan.parts = step.sizes;
      step.arena_bytes = std::max(step.arena_bytes, program.plan.arena_bytes);
    }
    offer(std::move(step));
    return true;
  }

  void offer(StepPlan step) {
    if (!best_ || step.predicted_s < best_->predicted_s) best_ = std::move(step);
  }

  const StepForms& forms_;
  PlanOptions options_;
  std::optional<StepPlan> best_;
  Made update_;
  std::map<int64_t, int64_t> arenas_;
};

}  // namespace

std::vector<int64_t> part_sizes(int64_t batch, int64_t most) {
  if (batch < 1 || most < 1) throw ArgumentError("a batch and its parts have at least one sample");
  const int64_t parts = (batch + most - 1) / most;
  const int64_t size = (batch + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t left = batch; left > 0; left -= size) sizes.push_back(std::min(size, left));
  return sizes;
}

std::variant<StepPlan, Refusal> plan_step(const StepForms& forms, const PlanOptions& options) {
  return PartsSearch(forms, options).run();
}

}  // namespace plimsoll::plan

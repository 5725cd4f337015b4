#include "plimsoll/plan/micro_batch_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "plimsoll/plan/batch_chunks.h"
#include "plimsoll/plan/bounds.h"
#include "plimsoll/program/ops/collective.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

constexpr int kShare = 3;              // each of a few ways is searched with a third of the effort
constexpr double kRoomForOneOp = 0.7;  // of what a budget leaves: chunks are tried where an op alone needs more
constexpr int64_t kMostMicroBatches = int64_t{1} << 16;  // more are no plan to run, and lists of them take memory
// Of the time until the deadline, as long as nothing fits: for the quick search, and for all.
constexpr double kQuickShare = 0.6;
constexpr double kShareToRefuse = 0.8;
constexpr double kWorthATry = 0.98;  // a way whose time can at best be above this share of the best one's is not tried

class MicroBatchSearch {
 public:
  MicroBatchSearch(const StepForms& forms, const PlanOptions& options) : forms_(forms), options_(options) {
    refuse_at_ = options_.deadline.share(kQuickShare);
    last_at_ = options_.deadline.share(kShareToRefuse);
  }

  std::variant<StepPlan, Refusal> run() && {
    try_forms();
    std::variant<StepPlan, Refusal> made = best_ ? std::move(*best_) : last_resort();
    if (was_late_) mark_cut_short(made);
    return made;
  }

 private:
  using Made = std::variant<PlannedProgram, Refusal>;

  void try_forms() {
    try_whole();
    if (is_plain()) return;
    if (has_collectives_ && !is_late()) try_form(plain_form(), lowered_in(plain_form()));
    if (is_plain()) return;
    if (forms_.formed && !is_late()) try_sinking();
    if (is_plain()) return;
    if (can_cut() && !is_late()) try_micro_batches();
    if (!is_late()) try_chunks();
  }

  // Those that take the least: sums over ranks are not in memory while others are made.
  program::StepForm plain_form() const { return {.waits = has_collectives_}; }
  program::StepForm late_form() const { return {.sink_ops = true, .waits = has_collectives_}; }

  // When all is to be done. Where nothing fits the caller has something left to look for what would.
  const Deadline& deadline() const { return best_ ? options_.deadline : refuse_at_; }
  bool is_late() const {
    const bool late = deadline().has_passed();
    was_late_ = was_late_ || late;
    return late;
  }

  void show(const std::string& trying) const {
    if (options_.progress) options_.progress({.trying = trying});
  }

  // Nothing takes longer than in the step as it is.
  bool is_plain() const { return best_ && best_->programs[0].plan.measures.empty(); }

  bool can_cut() const { return forms_.micro_batch && forms_.batch > 1; }

  // One of a few ways: with a share of the effort. `others`: steps of the programs that it takes turns with.
  Made make(Lowered lowered, bool measures, int64_t others = 0) {
    PlanOptions options = beside(others);
    options.deadline = deadline();
    options.recompute = measures && options_.recompute;
    if (!measures) options.spill = {};
    options.find_smallest = false;
    options.work_limit /= kShare;
    return make(std::move(lowered), options);
  }

  // One of so many ways that are left.
  Made make_with_all_effort(Lowered lowered, size_t ways, int64_t others = 0) const {
    PlanOptions options = beside(others);
    options.deadline = deadline().share(1.0 / static_cast<double>(ways));
    return make(std::move(lowered), options);
  }

  PlanOptions beside(int64_t others) const {
    PlanOptions options = options_;
    options.budget_bytes -= others * options.step_bytes;
    return options;
  }

  Made make(Lowered lowered, PlanOptions options) const {
    Costs costs = costs_of_ops(lowered);
    options.op_seconds = costs.seconds;
    auto made = make_plan(lowered, options);
    if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
    return PlannedProgram{std::move(lowered), std::get<Plan>(std::move(made)), std::move(costs)};
  }

  // With all effort, for the forms that take the least: the whole batch, as it is and in chunks, and micro-batches as
  // small as may be, which need room for sums of gradients. Close to the smallest budget this finds a plan where the
  // quick search does not.
  std::variant<StepPlan, Refusal> last_resort() {
    refuse_at_ = last_at_;
    if (is_late()) return *as_it_is_;
    const std::vector<program::StepForm> forms = forms_that_take_least();
    size_t ways_left = forms.size() + (can_cut() ? 1 : 0);
    std::optional<Refusal> closest;
    for (const program::StepForm& form : forms) {
      if (is_late()) return closest ? *closest : *as_it_is_;
      show(form == plain_form() ? "the least memory for the whole batch" : form_text(form));
      Made made = make_with_all_effort(lowered_in(form), ways_left--);
      if (auto* planned = std::get_if<PlannedProgram>(&made)) {
        offer_form(form, std::move(*planned));
        return std::move(*best_);
      }
      auto& refusal = std::get<Refusal>(made);
      closest = closest ? nearer(*closest, refusal) : std::move(refusal);
    }
    if (!can_cut()) return *closest;
    if (is_late()) return *closest;
    return in_smallest_micro_batches(*closest);
  }

  std::variant<StepPlan, Refusal> in_smallest_micro_batches(const Refusal& closest) {
    show("the smallest micro-batches");
    const std::vector<int64_t> sizes = micro_batch_sizes(forms_.batch, smallest_size());
    Lowered lowered = forms_.micro_batch(sizes.front());
    const bool has_other = sizes.back() != sizes.front();
    const int64_t steps_of_other = has_other ? working_ops(lowered) : 0;
    const Made update = make(forms_.update(), false);
    const Made micro_batch = make_with_all_effort(std::move(lowered), 1, steps_of(update) + steps_of_other);
    const auto* planned = std::get_if<PlannedProgram>(&micro_batch);
    if (planned != nullptr && std::holds_alternative<PlannedProgram>(update)) {
      std::vector<PlannedProgram> programs = {*planned};
      if (has_other) {
        Made other = make(forms_.micro_batch(sizes.back()), true, steps_of(update) + steps_of(micro_batch));
        if (auto* fits = std::get_if<PlannedProgram>(&other)) programs.push_back(std::move(*fits));
      }
      programs.push_back(std::get<PlannedProgram>(update));
      if (programs.size() == (has_other ? 3 : 2) && offer_micro_batches(sizes, std::move(programs)))
        return std::move(*best_);
    }
    return nearer(closest, refusal_in_micro_batches(micro_batch, update, steps_of_other));
  }

  int64_t smallest_size() const { return (forms_.batch + kMostMicroBatches - 1) / kMostMicroBatches; }

  static std::string form_text(const program::StepForm& form) {
    return form.chunks > 1 ? chunks_text(form) : std::string("the whole batch in another order");
  }

  std::vector<program::StepForm> forms_that_take_least() const {
    std::vector<program::StepForm> forms = {plain_form()};
    if (sinking_helps_) forms.push_back(late_form());
    if (const auto chunks = chunks_for(0)) forms.push_back(*chunks);
    return forms;
  }

  // The one that comes closer, with the figures of the step as it is, which `one` has.
  static Refusal nearer(const Refusal& one, const Refusal& other) {
    Refusal closer = other.smallest_bytes < one.smallest_bytes ? other : one;
    closer.cut_short = one.cut_short || other.cut_short;
    closer.bound_bytes = std::min(one.bound_bytes, other.bound_bytes);
    closer.unplanned_bytes = one.unplanned_bytes;
    closer.unplanned_s = one.unplanned_s;
    return closer;
  }

  static int64_t steps_of(const Made& made) {
    if (const auto* refusal = std::get_if<Refusal>(&made)) return refusal->smallest_steps;
    return static_cast<int64_t>(std::get<PlannedProgram>(made).plan.steps.size());
  }

  int64_t arena_of(const Made& made) const {
    const auto* refusal = std::get_if<Refusal>(&made);
    if (refusal == nullptr) return std::get<PlannedProgram>(made).plan.arena_bytes;
    return refusal->smallest_bytes - refusal->smallest_steps * options_.step_bytes;
  }

  // Both programs take turns in one arena, that of the one which needs more; each has its steps.
  Refusal refusal_in_micro_batches(const Made& micro_batch, const Made& update, int64_t steps_of_other) const {
    const auto* of_micro_batch = std::get_if<Refusal>(&micro_batch);
    const auto* of_update = std::get_if<Refusal>(&update);
    Refusal refusal = of_micro_batch != nullptr ? *of_micro_batch : of_update != nullptr ? *of_update : Refusal();
    if (of_micro_batch != nullptr) refusal.smallest_s *= static_cast<double>(forms_.batch);
    refusal.smallest_steps = steps_of(micro_batch) + steps_of(update) + steps_of_other;
    refusal.smallest_bytes =
        std::max(arena_of(micro_batch), arena_of(update)) + refusal.smallest_steps * options_.step_bytes;
    return refusal;
  }

  Costs costs_of_ops(const Lowered& lowered) const {
    return forms_.costs ? forms_.costs(lowered) : costs_of(lowered, {});
  }

  void try_whole() {
    show("the whole batch");
    Lowered as_written = forms_.whole();
    has_collectives_ = forms_.formed && program::collectives(as_written.program) > 0;
    Made whole = make(std::move(as_written), true);
    if (const auto* refusal = std::get_if<Refusal>(&whole)) {
      as_it_is_ = *refusal;
      unplanned_bytes_ = refusal->unplanned_bytes;
      unplanned_s_ = refusal->unplanned_s;
    } else {
      offer_whole(std::get<PlannedProgram>(std::move(whole)));
    }
  }

  void offer_whole(PlannedProgram whole) {
    unplanned_bytes_ = whole.plan.unplanned_bytes;
    unplanned_s_ = whole.plan.unplanned_s;
    offer_form({}, std::move(whole));
  }

  void try_micro_batches() {
    Made update = make(forms_.update(), false);
    if (std::holds_alternative<Refusal>(update)) return;  // it holds the least that any micro-batch does
    update_ = std::get<PlannedProgram>(std::move(update));
    const int64_t plain = largest_without_measures();
    const int64_t least = smallest_size();
    if (plain >= least) try_size(plain, false);
    for (int64_t size = std::max(least, 2 * plain); size < forms_.batch && !is_late(); size *= 2) {
      if (best_ && time_at_best(size) > kWorthATry * best_->predicted_s) continue;
      if (!try_size(size, true)) break;  // larger ones need more
    }
  }

  // The same ops in another order, where that needs less.
  void try_sinking() {
    Lowered late = forms_.formed(late_form());
    sinking_helps_ = plan_memory(late).placement.arena_bytes < unplanned_bytes_;
    if (sinking_helps_) try_form(late_form(), std::move(late));
  }

  // Where one op needs most of what there is.
  void try_chunks() {
    if (const auto form = chunks_for(kRoomForOneOp)) try_form(*form, forms_.formed(*form));
  }

  Lowered lowered_in(const program::StepForm& form) const {
    return form == program::StepForm{} ? forms_.whole() : forms_.formed(form);
  }

  // Such that no op alone needs more than this share of what the budget leaves, as far as chunks can do that.
  std::optional<program::StepForm> chunks_for(double share) const {
    if (!forms_.formed || forms_.places.empty()) return std::nullopt;
    const auto graph_of = [&](const program::StepForm& form) {
      const Lowered lowered = lowered_in(form);
      StepGraph graph = make_step_graph(lowered, costs_of_ops(lowered).seconds);
      graph.step_bytes = options_.step_bytes;
      return graph;
    };
    const StepGraph as_it_is = graph_of({});
    const ChunkChoice choice{forms_.places, forms_.batch, least_bytes(as_it_is).bytes,
                             [&](const program::StepForm& form) {
                               if (is_late()) return INT64_MAX;  // no form is better than one that is known
                               show(chunks_text(form));
                               return least_bytes(graph_of(form)).bytes;
                             }};
    const auto room = static_cast<double>(options_.budget_bytes - as_it_is.resident_bytes);
    return choose_chunks(choice, as_it_is.resident_bytes + static_cast<int64_t>(share * room));
  }

  void try_form(const program::StepForm& form, Lowered lowered) {
    show(form_text(form));
    Made made = make(std::move(lowered), true);
    if (auto* planned = std::get_if<PlannedProgram>(&made)) offer_form(form, std::move(*planned));
  }

  void offer_form(const program::StepForm& form, PlannedProgram planned) {
    StepPlan step{.sizes = {forms_.batch}, .form = form};
    step.programs.push_back(std::move(planned));
    offer(std::move(step));
  }

  // What micro-batches of this size as they are take of the budget, the update's steps included.
  int64_t taken_by(int64_t size) {
    int64_t& bytes = taken_[size];
    if (bytes > 0) return bytes;
    const Lowered micro_batch = forms_.micro_batch(size);
    const int64_t programs = is_divided_evenly(size) ? 1 : 2;
    const int64_t steps = programs * working_ops(micro_batch) + static_cast<int64_t>(update_.plan.steps.size());
    bytes = plan_memory(micro_batch).placement.arena_bytes + steps * options_.step_bytes;
    return bytes;
  }
  bool fits(int64_t size) { return taken_by(size) <= options_.budget_bytes; }

  static int64_t working_ops(const Lowered& lowered) {
    return static_cast<int64_t>(make_step_graph(lowered, std::vector<double>(lowered.ops.size(), 0)).nodes.size());
  }

  // Whether micro-batches of at most so many samples are all of one size, as micro_batch_sizes has it: a list of them
  // may be long.
  bool is_divided_evenly(int64_t most) const {
    const int64_t micro_batches = (forms_.batch + most - 1) / most;
    return forms_.batch % ((forms_.batch + micro_batches - 1) / micro_batches) == 0;
  }

  // All but the last are of one size.
  static std::vector<int64_t> different_sizes(const std::vector<int64_t>& sizes) {
    if (sizes.back() == sizes.front()) return {sizes.front()};
    return {sizes.front(), sizes.back()};
  }

  // The largest micro-batch that fits as it is, 0 when none does. Arenas grow with the size nearly in a line, so a line
  // through what is known says where to look.
  int64_t largest_without_measures() {
    int64_t fit = 0;
    int64_t not_fit = forms_.batch;
    for (int64_t next = 1; not_fit - fit > 1 && !is_late(); next = between(fit, not_fit)) {
      show(fmt::format("micro-batches of {}", next));
      (fits(next) ? fit : not_fit) = next;
    }
    return fit;
  }

  int64_t between(int64_t fit, int64_t not_fit) {
    if (fit == 0) return (fit + not_fit) / 2;
    const int64_t other = fit > 1 ? 1 : 2;
    if (other == 2 && not_fit > 2 && !taken_.contains(2)) return 2;
    const double slope = static_cast<double>(taken_by(fit) - taken_by(other)) / static_cast<double>(fit - other);
    if (slope <= 0) return (fit + not_fit) / 2;
    const double more = static_cast<double>(options_.budget_bytes - taken_by(fit)) / slope;
    const double capped = std::min(more, static_cast<double>(not_fit - fit));
    return std::clamp(fit + static_cast<int64_t>(capped), fit + 1, not_fit - 1);
  }

  // Were nothing computed twice.
  double time_at_best(int64_t size) {
    const std::vector<double> seconds = costs_of_ops(forms_.micro_batch(size)).seconds;
    const auto micro_batches = static_cast<double>(micro_batch_sizes(forms_.batch, size).size());
    return micro_batches * std::accumulate(seconds.begin(), seconds.end(), 0.0) + update_.plan.predicted_s;
  }

  // Whether it fits.
  bool try_size(int64_t most, bool measures) {
    show(fmt::format("micro-batches of {}", most));
    const std::vector<int64_t> sizes = micro_batch_sizes(forms_.batch, most);
    const std::vector<int64_t> different = different_sizes(sizes);
    std::vector<PlannedProgram> programs;
    auto others = static_cast<int64_t>(update_.plan.steps.size());
    for (const int64_t size : different) {
      Lowered lowered = forms_.micro_batch(size);
      const bool has_next = programs.size() + 1 < different.size();
      Made micro_batch = make(lowered, measures, others + (has_next ? working_ops(lowered) : 0));
      if (std::holds_alternative<Refusal>(micro_batch)) return false;
      others += steps_of(micro_batch);
      programs.push_back(std::get<PlannedProgram>(std::move(micro_batch)));
    }
    programs.push_back(update_);
    return offer_micro_batches(sizes, std::move(programs));
  }

  bool offer_micro_batches(const std::vector<int64_t>& sizes, std::vector<PlannedProgram> programs) {
    for (PlannedProgram& program : programs) program.plan.micro_batches = sizes;
    return offer({.sizes = sizes, .programs = std::move(programs)});
  }

  // Whether it fits.
  bool offer(StepPlan step) {
    step.budget_bytes = options_.budget_bytes;
    step.unplanned_bytes = unplanned_bytes_;
    step.unplanned_s = unplanned_s_;
    for (size_t i = 0; i < step.programs.size(); ++i) {
      const Plan& plan = step.programs[i].plan;
      step.arena_bytes = std::max(step.arena_bytes, plan.arena_bytes);
      step.predicted_s += static_cast<double>(step.runs(i)) * plan.predicted_s;
    }
    if (taken_bytes(step, options_) > options_.budget_bytes) return false;
    if (!best_ || step.predicted_s < best_->predicted_s) best_ = std::move(step);
    return true;
  }

  const StepForms& forms_;
  PlanOptions options_;
  Deadline refuse_at_;
  Deadline last_at_;
  mutable bool was_late_ = false;  // something was not tried
  std::optional<StepPlan> best_;
  std::optional<Refusal> as_it_is_;  // of the whole batch
  PlannedProgram update_;
  int64_t unplanned_bytes_ = 0;  // of the whole batch
  double unplanned_s_ = 0;
  bool sinking_helps_ = false;
  bool has_collectives_ = false;      // which may go on while other ops run, or be waited for
  std::map<int64_t, int64_t> taken_;  // of the budget, by the size of micro-batches as they are
};

}  // namespace

std::variant<StepPlan, Refusal> search_forms(const StepForms& forms, const PlanOptions& options) {
  return MicroBatchSearch(forms, options).run();
}

int64_t taken_bytes(const StepPlan& step, const PlanOptions& options) {
  return step.arena_bytes + step.steps() * options.step_bytes;
}

void mark_cut_short(std::variant<StepPlan, Refusal>& made) {
  if (auto* refusal = std::get_if<Refusal>(&made)) {
    refusal->cut_short = true;
  } else {
    std::get<StepPlan>(made).programs[0].plan.cut_short = true;
  }
}

}  // namespace plimsoll::plan

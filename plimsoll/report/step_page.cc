#include "plimsoll/report/step_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/error.h"
#include "plimsoll/models/step.h"

namespace plimsoll::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kVariantWork = 6'000'000;  // of a plan that only a switch shows

int64_t batch_of(const train::StepRequest& request) {
  const program::Bindings sizes = models::bindings(request.model, request.step.sizes);
  const auto batch = sizes.find("batch");
  return batch == sizes.end() ? 1 : batch->second;
}

int64_t arena_bytes(const StepHistory& history) {
  int64_t most = 0;
  for (const StepPart& part : history) most = std::max(most, part.memory.placement.arena_bytes);
  return most;
}

double seconds_of(const StepHistory& history) {
  double seconds = 0;
  for (const StepPart& part : history) seconds += part.all_seconds();
  return seconds;
}

// The switches of a step's page and the steps that they make.
class Variants {
 public:
  enum Switch : uint8_t { half_batch, bf16, recompute, no_plan };

  Variants(Page& page, const StepPageInput& input) : page_(page), input_(input), labels_(page) {
    const auto limit = std::chrono::duration<double>(input.time_limit_s);
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
    page_.allocators = {"the arena, packed"};
  }

  // `base` is what the page shows first; `all` are offered.
  void add(const StepHistory& base, const std::vector<Switch>& all) {
    for (const Switch one : all) {
      if (can_be(one)) offer(one);
    }
    add_view(0, base, "");
    for (uint32_t mask = 1; mask < 1u << kinds_.size(); ++mask) try_variant(mask);
    drop_unmade_switches();
  }

 private:
  struct Made {
    StepHistory history;
    std::string note;
  };

  bool can_be(Switch one) const {
    const models::StepOptions& step = input_.request.step;
    if (one == half_batch) return batch_of(input_.request) >= 2;
    if (one == bf16) return step.precision == DType::f32;
    return one == no_plan || (step.training && input_.with_kernels);
  }

  void offer(Switch one) {
    kinds_.push_back(one);
    const int64_t half = batch_of(input_.request) / 2;
    switch (one) {
      case half_batch:
        page_.switches.push_back({"half_batch", fmt::format("batch {}", half), "half the batch"});
        break;
      case bf16:
        page_.switches.push_back({"bf16", "bf16", "computes in bf16, updates in f32; changes rounding"});
        break;
      case recompute:
        page_.switches.push_back({"recompute", "recompute", "planned for half the memory, or the least there can be"});
        break;
      case no_plan:
        page_.switches.push_back({"no_plan", "without the plan", "the step as it is written"});
        break;
    }
  }

  bool is_on(uint32_t mask, Switch one) const {
    for (size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i] == one) return (mask >> i & 1u) != 0;
    }
    return false;
  }

  bool offers(Switch one) const { return std::find(kinds_.begin(), kinds_.end(), one) != kinds_.end(); }

  train::StepRequest request_of(uint32_t mask) const {
    train::StepRequest request = input_.request;
    request.measure = false;
    request.listener = {};
    if (is_on(mask, half_batch)) request.step.sizes["batch"] = batch_of(input_.request) / 2;
    if (is_on(mask, bf16)) request.step.precision = DType::bf16;
    return request;
  }

  // What a device has no kernels for, or no plan was found for in time, is not offered.
  void try_variant(uint32_t mask) {
    if (Clock::now() >= deadline_) return;
    try {
      const std::optional<Made> made = offers(no_plan) && !is_on(mask, no_plan) ? planned(mask) : written(mask);
      if (made) add_view(mask, made->history, made->note);
    } catch (const Error&) {
    }
  }

  std::optional<Made> written(uint32_t mask) {
    const train::StepRequest request = request_of(mask);
    program::Program program = models::build_step(request.model, request.step);
    if (!input_.with_kernels) return Made{history_of(program), ""};
    kernels::Lowered lowered =
        kernels::prepare(std::move(program), {.device = request.device, .threads = request.threads});
    if (is_on(mask, recompute)) return recomputed(lowered);
    std::vector<double> seconds = costs_.of(lowered).seconds;
    return Made{history_of(std::move(lowered), std::move(seconds)), ""};
  }

  plan::PlanOptions plan_options(int64_t budget) const {
    plan::PlanOptions options;
    options.budget_bytes = budget;
    options.work_limit = kVariantWork;
    options.deadline = {deadline_};
    return options;
  }

  std::optional<Made> recomputed(const kernels::Lowered& lowered) const {
    const std::vector<double> seconds = costs_.of(lowered).seconds;
    plan::PlanOptions options = plan_options(plan::plan_memory(lowered).placement.arena_bytes / 2);
    options.op_seconds = seconds;
    auto made = plan::make_plan(lowered, options);
    if (const auto* refusal = std::get_if<plan::Refusal>(&made)) {
      options.budget_bytes = refusal->smallest_bytes;
      made = plan::make_plan(lowered, options);
    }
    const auto* found = std::get_if<plan::Plan>(&made);
    if (found == nullptr) return std::nullopt;
    plan::Applied applied = plan::apply(*found, lowered);
    std::vector<double> all = costs_.of(applied.lowered).seconds;
    return Made{{{"step", std::move(applied.lowered.program), std::move(applied.memory), std::move(all)}},
                fmt::format("{} more of computing", format_seconds(found->predicted_s - found->unplanned_s))};
  }

  std::optional<Made> planned(uint32_t mask) {
    const train::ModelForms model(request_of(mask));
    const plan::StepForms forms = model.forms();
    const auto made = plan::plan_step(forms, plan_options(input_.limit->bytes));
    const auto* step = std::get_if<plan::StepPlan>(&made);
    if (step == nullptr) return std::nullopt;
    return Made{history_of(*step, forms.costs), fmt::format("{} of {}", step->sizes.size(), step->sizes.front())};
  }

  void add_view(uint32_t mask, const StepHistory& history, const std::string& note) {
    PageView view;
    view.switches = mask;
    view.timeline = add_timeline(page_, labels_, history, mask == 0 ? base_name() : "otherwise");
    view.peak_bytes = live_peak_bytes(history);
    view.seconds = seconds_of(history);
    view.note = note;
    const int64_t arena = arena_bytes(history);
    view.reserved.push_back({0, arena, {0}, {arena}});
    page_.views.push_back(std::move(view));
  }

  std::string base_name() const {
    if (page_.verb == "plan" && offers(no_plan)) return "the plan";
    return page_.verb == "train" ? "this run" : "this step";
  }

  // A switch of which no view was made would do nothing.
  void drop_unmade_switches() {
    uint32_t made = 0;
    for (const PageView& view : page_.views) made |= view.switches;
    while (!page_.switches.empty() && (made >> (page_.switches.size() - 1) & 1u) == 0) page_.switches.pop_back();
  }

  Page& page_;
  const StepPageInput& input_;
  PageLabels labels_;
  train::KnownCosts costs_;
  std::vector<Switch> kinds_;
  Clock::time_point deadline_;
};

Page start_page(const std::string& verb, const StepPageInput& input) {
  Page page;
  page.verb = verb;
  page.title = input.title;
  page.limit = input.limit;
  return page;
}

// The op that sets the peak, and what is alive there.
struct Peak {
  std::string op;
  std::string phase;
  std::array<int64_t, kAllCategories.size()> live = {};
  int64_t bytes = 0;
};

Peak peak_of(const StepHistory& history) {
  Peak peak;
  for (const StepPart& part : history) {
    const auto live = live_by_category(part);
    for (size_t op = 0; op < live.size(); ++op) {
      int64_t bytes = 0;
      for (const int64_t each : live[op]) bytes += each;
      if (bytes <= peak.bytes) continue;
      peak = {op_text(part.program, op), std::string(program::name(part.program.ops[op].phase)), live[op], bytes};
    }
  }
  return peak;
}

void add_categories(Page& page, const Peak& peak) {
  for (const Category category :
       {Category::parameter, Category::optimizer_state, Category::gradient, Category::activation, Category::scratch}) {
    const int64_t bytes = peak.live[static_cast<size_t>(category)];
    if (bytes > 0) page.figures.push_back({fmt::format("{} at the peak", name(category)), bytes});
  }
}

// What the switches alone save, as cards.
void add_switch_cards(Page& page, const std::map<std::string, std::string>& settings) {
  page.cards_title = "What would take less";
  const int64_t now = page.views.front().reserved.front().peak_bytes;
  for (const PageView& view : page.views) {
    for (size_t i = 0; i < page.switches.size(); ++i) {
      const int64_t saved = now - view.reserved.front().peak_bytes;
      if (view.switches != 1u << i || saved <= 0) continue;
      const auto setting = settings.find(page.switches[i].id);
      page.cards.push_back({page.switches[i].note, setting == settings.end() ? "" : setting->second, saved, view.note});
    }
  }
}

void add_measures(Page& page, const plan::StepPlan& step) {
  constexpr size_t kMostCards = 8;
  page.cards_title = "What the plan does";
  const std::vector<plan::Measure> measures = plan::by_op(step.measures());
  for (const plan::Measure& measure : measures) {
    if (page.cards.size() == kMostCards) break;
    page.cards.push_back({fmt::format("{}: {}", measure.kind, measure.what), "", measure.saved_bytes,
                          fmt::format("{}{}", format_seconds(measure.cost_s),
                                      measure.times > 1 ? fmt::format(", {} times", measure.times) : "")});
  }
  if (measures.size() > kMostCards) {
    page.notes.push_back(fmt::format("{} measures in all, the first {} are shown", measures.size(), kMostCards));
  }
}

std::vector<std::string> step_chips(const StepHistory& history) {
  std::vector<std::string> chips;
  const double seconds = seconds_of(history);
  if (seconds > 0) chips.push_back(fmt::format("about {} a step", format_seconds(seconds)));
  size_t ops = 0;
  for (const StepPart& part : history) ops += part.program.ops.size();
  chips.push_back(fmt::format("{} ops", ops));
  return chips;
}

}  // namespace

Page estimate_page(const StepPageInput& input, const StepHistory& history) {
  Page page = start_page("estimate", input);
  Variants(page, input).add(history, {Variants::half_batch, Variants::bf16, Variants::recompute});
  const Peak peak = peak_of(history);
  const int64_t arena = arena_bytes(history);
  const bool fits = !input.limit || arena <= input.limit->bytes;
  page.verdict = {
      input.limit ? (fits ? "good" : "bad") : "neutral", format_bytes(arena),
      fmt::format(
          "A step takes {}{}; the peak is at {} in the {} pass", format_bytes(arena),
          input.limit ? fmt::format(", and {} has {}", input.limit->name, format_bytes(input.limit->bytes)) : "",
          peak.op, peak.phase),
      step_chips(history)};
  page.figures.push_back({"peak", arena, "the arena that holds the step"});
  page.figures.push_back({"live at the peak", peak.bytes, "without padding and gaps"});
  add_categories(page, peak);
  const std::string model = input.request.model.name;
  const int64_t batch = batch_of(input.request);
  add_switch_cards(page, {{"half_batch", fmt::format("plimsoll estimate {} --batch {}", model, batch / 2)},
                          {"bf16", fmt::format("plimsoll estimate {} --batch {} --precision bf16", model, batch)},
                          {"recompute", fmt::format("plimsoll plan {} --batch {} --budget {}MiB", model, batch,
                                                    (arena / 2 + kMiB - 1) / kMiB)}});
  return page;
}

Page plan_page(const StepPageInput& input, const plan::StepPlan& step) {
  Page page = start_page("plan", input);
  const train::ModelForms model(input.request);
  const StepHistory history = history_of(step, model.forms().costs);
  Variants(page, input).add(history, {Variants::no_plan, Variants::half_batch, Variants::bf16});
  page.verdict = {"good", "fits",
                  fmt::format("{} of the {} that it has to fit in, {:+.1f} % in time; as it is written it takes {}",
                              format_bytes(step.arena_bytes), format_bytes(step.budget_bytes),
                              (step.predicted_s / step.unplanned_s - 1) * 100, format_bytes(step.unplanned_bytes)),
                  step_chips(history)};
  page.figures = {{"plan", step.arena_bytes, "the arena that holds the step"},
                  {"budget", step.budget_bytes},
                  {"unplanned", step.unplanned_bytes, "the whole batch at once"}};
  if (step.file_bytes() > 0) page.figures.push_back({"spilled", step.file_bytes(), "goes to a file and comes back"});
  add_categories(page, peak_of(history));
  add_measures(page, step);
  return page;
}

Page refusal_page(const StepPageInput& input, const plan::Refusal& refusal,
                  const std::vector<train::Alternative>& ways) {
  Page page = start_page("plan", input);
  const train::ModelForms model(input.request);
  const plan::StepForms forms = model.forms();
  kernels::Lowered lowered = forms.whole();
  std::vector<double> seconds = forms.costs(lowered).seconds;
  Variants(page, input)
      .add(history_of(std::move(lowered), std::move(seconds)),
           {Variants::half_batch, Variants::bf16, Variants::recompute});
  page.verdict = {
      "bad", "does not fit",
      fmt::format("The smallest budget is {}, set by {}", format_bytes(refusal.smallest_bytes), refusal.binding_op)};
  page.figures = {{"budget", refusal.budget_bytes},
                  {"smallest budget", refusal.smallest_bytes},
                  {"no plan below", refusal.bound_bytes},
                  {"unplanned", refusal.unplanned_bytes}};
  page.cards_title = "What would fit";
  page.cards.push_back({"the smallest budget that was found to do",
                        fmt::format("--budget {}MiB", (refusal.smallest_bytes + kMiB - 1) / kMiB),
                        {},
                        fmt::format("about {} a step", format_seconds(refusal.smallest_s))});
  for (const train::Alternative& way : ways) {
    page.cards.push_back({way.note.empty() ? "fits with " + way.how() : way.note, way.how(),
                          refusal.smallest_bytes - way.arena_bytes,
                          fmt::format("{} a sample", format_seconds(way.seconds_a_sample))});
  }
  return page;
}

Page train_page(const StepPageInput& input, const TrainedRun& run) {
  Page page = start_page("train", input);
  std::vector<Variants::Switch> switches = {Variants::half_batch, Variants::bf16};
  if (run.plan != nullptr) switches.insert(switches.begin(), Variants::no_plan);
  Variants(page, input).add(run.history, switches);
  const bool kept = run.budget_bytes == 0 || run.process_peak_bytes <= run.budget_bytes;
  page.verdict = {kept ? "good" : "bad",
                  kept ? "kept to the budget" : "above the budget",
                  fmt::format("{} steps; the process took {} at most, predicted were {}", run.steps.size(),
                              format_bytes(run.process_peak_bytes), format_bytes(run.predicted_peak_bytes)),
                  {fmt::format("{} a step", format_seconds(median_seconds(run.steps)))}};
  if (run.budget_bytes == 0) page.verdict.label = "trained";
  if (!run.steps.empty()) {
    page.verdict.chips.push_back(
        fmt::format("loss {:.4f} at first, {:.4f} at last", run.steps.front().loss, run.steps.back().loss));
  }
  page.figures = {{"process, measured", run.process_peak_bytes, "at most"},
                  {"predicted", run.predicted_peak_bytes},
                  {"arena", arena_bytes(run.history)}};
  if (run.overhead_bytes > 0)
    page.figures.push_back({"beside the arena", run.overhead_bytes, "code, libraries, stacks"});
  if (run.budget_bytes > 0) page.figures.push_back({"budget", run.budget_bytes, "of the whole process"});
  add_categories(page, peak_of(run.history));
  if (run.plan != nullptr) add_measures(page, *run.plan);
  return page;
}

}  // namespace plimsoll::report

#include "plimsoll/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/budget_options.h"
#include "cli/console.h"
#include "cli/page_options.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/file.h"
#include "plimsoll/plan/batch_chunks.h"
#include "plimsoll/plan/manifest.h"
#include "plimsoll/plan/step_oracle.h"
#include "plimsoll/plan/step_plan_json.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/report/dot.h"
#include "plimsoll/report/plan_text.h"
#include "plimsoll/report/step_page.h"
#include "plimsoll/train/choose_sharding.h"

namespace plimsoll::cli {
namespace {

using kernels::Lowered;

constexpr double kMeasuringShare = 0.3;  // of the time limit

struct PlanVerb {
  ModelOptions step;
  BudgetOptions budget;
  PageOptions page;
  std::string output;
  std::string dot;
  std::string check;
  std::string manifest;
  std::string check_manifest;
  bool max_batch = false;
  train::RankOptions ranks;
  double time_limit_s = 10;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  FormOptions form() const {
    FormOptions form = budget.form;
    form.measure_s = std::min(form.measure_s, kMeasuringShare * time_limit_s);
    return form;
  }
  plan::Deadline deadline() const {
    return {start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                        std::chrono::duration<double>(time_limit_s))};
  }
};

int64_t read_budget_bytes(const PlanVerb& verb) {
  if (verb.budget.budget.empty()) throw ArgumentError("--budget is missing: give a size such as 2GiB, or auto");
  return read_budget(verb.budget, verb.step.device).bytes;
}

// What is tried, and the best of it so far, on the terminal; none where that is no terminal.
std::function<void(const plan::Progress&)> planning_progress() {
  if (!shows_progress()) return nullptr;
  return [trying = std::string()](const plan::Progress& progress) mutable {
    if (!progress.trying.empty()) trying = progress.trying;
    show_progress(progress.predicted_s == 0
                      ? fmt::format("planning: {}", trying)
                      : fmt::format("planning: {}: {} in {} a step so far", trying, format_bytes(progress.live_bytes),
                                    format_seconds(progress.predicted_s)));
  };
}

plan::PlanOptions plan_options(const PlanVerb& verb, int64_t budget_bytes) {
  plan::PlanOptions options;
  options.budget_bytes = budget_bytes;
  options.recompute = verb.budget.form.recompute;
  options.deadline = verb.deadline();
  options.progress = planning_progress();
  return options;
}

void show_planned(const PlanVerb& verb, std::string_view what, int64_t samples) {
  const std::chrono::duration<double> left = verb.deadline().at - std::chrono::steady_clock::now();
  show_progress(
      fmt::format("planning: {} of {}, at most {} left", what, samples, format_seconds(std::max(0.0, left.count()))));
}

// All samples of a batch in one step: as it is written, in another order, or with some ops in chunks.
std::optional<plan::PlannedBatch> plan_batch_at_once(const PlanVerb& verb, const plan::PlanOptions& options,
                                                     int64_t batch) {
  if (options.deadline.has_passed()) return std::nullopt;
  show_planned(verb, "a batch", batch);
  const train::ModelForms model(request_of(verb.step, verb.form(), {{"batch", batch}}));
  plan::StepForms forms = model.least_forms();
  forms.micro_batch = {};
  const auto made = plan::plan_step(forms, options);
  const auto* step = std::get_if<plan::StepPlan>(&made);
  if (step == nullptr) return std::nullopt;
  return plan::PlannedBatch{batch, step->arena_bytes, step->predicted_s, step->steps(),
                            step->form.chunks > 1 ? plan::chunks_text(step->form) : ""};
}

std::optional<report::Batches> largest_batches(const PlanVerb& verb, int64_t budget_bytes) {
  const train::KnownCosts known(terminal_listener());
  const auto costs = [&](const Lowered& lowered) { return known.of(lowered).seconds; };
  plan::PlanOptions options = plan_options(verb, budget_bytes);
  options.work_limit /= 10;  // for each of some twenty sizes
  options.find_smallest = false;
  options.progress = nullptr;
  const int64_t most = train::most_samples(find_model(verb.step));
  plan::PlanOptions of_whole = options;
  of_whole.deadline = options.deadline.share(0.5);
  auto whole = plan::find_largest_batch([&](int64_t batch) { return plan_batch_at_once(verb, of_whole, batch); }, most);
  if (!whole) return std::nullopt;
  report::Batches found{std::move(*whole), std::nullopt, of_whole.deadline.has_passed()};
  const train::ModelForms model(request_of(verb.step, verb.form()));
  const plan::StepForms forms = model.least_forms();
  const bool can_cut = forms.micro_batch && plan::plan_memory(forms.update()).placement.arena_bytes <= budget_bytes;
  const auto micro_batch = [&](int64_t samples) {
    show_planned(verb, "a micro-batch", samples);
    return forms.micro_batch(samples);
  };
  if (can_cut) found.micro_batch = plan::find_largest_batch(micro_batch, costs, options, most);
  found.cut_short = found.cut_short || options.deadline.has_passed();
  return found;
}

int plan_largest_batch(const PlanVerb& verb) {
  const int64_t budget = read_budget_bytes(verb);
  const std::optional<report::Batches> found = largest_batches(verb, budget);
  if (!found) {
    const bool is_late = verb.deadline().has_passed();
    const std::string why =
        is_late ? fmt::format("no batch of {} was found to fit in {} before the --time-limit; give more time",
                              verb.step.model, format_bytes(budget))
                : fmt::format(
                      "not even one sample of {0} fits in {1}; `plimsoll plan {0} --batch 1 --budget {2}` tells the "
                      "smallest budget that does",
                      verb.step.model, format_bytes(budget), budget);
    tell("plimsoll: {}\n", why);
    if (verb.step.json) {
      print_json({{"model", verb.step.model}, {"budget_bytes", budget}, {"fits", false}, {"why", why}});
    }
    return kFinding;
  }
  verb.step.json ? print_json(report::batches_json(verb.step.model, budget, *found))
                 : print("{}", report::batches_text(verb.step.model, budget, *found));
  return kDone;
}

report::StepPageInput page_input(const train::ModelForms& model, int64_t budget_bytes) {
  return {.title = report::setting_text(model.setting()),
          .request = model.request(),
          .limit = report::PageFigure{"the budget", budget_bytes, "for the tensors of the step"}};
}

void write_files(const PlanVerb& verb, const train::ModelForms& model, const plan::StepPlan& step) {
  if (!verb.page.chrome_trace.empty()) {
    write_file(verb.page.chrome_trace, report::chrome_trace(report::history_of(step, model.forms().costs),
                                                            report::setting_text(model.setting())));
  }
  write_page(verb.page, [&] { return report::plan_page(page_input(model, step.budget_bytes), step); });
}

int refuse(const PlanVerb& verb, const train::ModelForms& model, const plan::Refusal& refusal) {
  plan::PlanOptions search = plan_options(verb, refusal.budget_bytes);
  if (!verb.budget.spill_dir.empty()) search.spill = model.spill_in(verb.budget.spill_dir);
  const auto ways = verb.ranks.ranks == 1 ? train::find_alternatives(model.request(), search, model.why_whole())
                                          : std::vector<train::Alternative>();
  write_page(verb.page, [&] { return report::refusal_page(page_input(model, refusal.budget_bytes), refusal, ways); });
  const report::RefusedStep refused{model.setting(), refusal, ways, model.why_whole()};
  if (verb.step.json) {
    print_json(report::refusal_json(refused));
  } else {
    tell("plimsoll: {}", report::refusal_text(refused));
  }
  return kFinding;
}

// Of one of several ranks, what it sends and how long it waits for the others.
nlohmann::ordered_json rank_json(const PlanVerb& verb, const train::RankEstimate& rank) {
  return {{"ranks", rank.ranks},
          {"shard", verb.ranks.shard},
          {"link", verb.ranks.link},
          {"sent_bytes", rank.sent_bytes},
          {"communication_s", rank.communication_s},
          {"waited_s", rank.waited_s},
          {"step_s", rank.step_s()}};
}

void print_plan(const PlanVerb& verb, const train::ModelForms& model, const plan::StepPlan& step) {
  const bool has_ranks = verb.ranks.ranks > 1;
  const train::RankEstimate rank = has_ranks
                                       ? train::estimate_rank(model.request(), step, train::parse_link(verb.ranks.link))
                                       : train::RankEstimate{};
  if (verb.step.json) {
    nlohmann::ordered_json json = report::plan_json(model.setting(), step);
    if (has_ranks) json.update(rank_json(verb, rank));
    return print_json(json);
  }
  print("{}", report::plan_text(model.setting(), step));
  if (!has_ranks) return;
  print("  each of {} ranks sends {} a step over {} in {}, and waits {} for it: {} in all; sharded: {}\n", rank.ranks,
        format_bytes(rank.sent_bytes), verb.ranks.link, format_seconds(rank.communication_s),
        format_seconds(rank.waited_s), format_seconds(rank.step_s()), verb.ranks.shard);
}

train::StepRequest request_for(const PlanVerb& verb) {
  train::StepRequest request = request_of(verb.step, verb.form());
  if (verb.ranks.ranks == 1) return request;
  if (!verb.output.empty()) throw ArgumentError("-o writes the plan of one process: leave --ranks out");
  request.link = train::parse_link(verb.ranks.link);
  train::set_bucket(request, verb.ranks.bucket);
  return train::request_of_ranks(std::move(request), verb.ranks.ranks, train::parse_sharding(verb.ranks.shard));
}

// With a sharding in place of `auto`.
PlanVerb with_sharding(PlanVerb verb, const plan::PlanOptions& options) {
  if (verb.ranks.shard != train::kAutoSharding) return verb;
  verb.ranks.shard = name(program::Sharding::none);
  if (verb.ranks.ranks == 1) return verb;
  const program::Sharding chosen = train::choose_sharding(request_for(verb), options, train::possible_shardings(false));
  verb.ranks.shard = name(chosen);
  return verb;
}

int make(const PlanVerb& asked) {
  require_page(asked.page);
  plan::PlanOptions options = plan_options(asked, read_budget_bytes(asked));
  const PlanVerb verb = with_sharding(asked, options);
  const train::ModelForms model(request_for(verb));
  model.calibrate();
  if (!verb.budget.spill_dir.empty()) options.spill = model.spill_in(verb.budget.spill_dir);
  const auto made = plan::plan_step(model.forms(), options);
  if (const auto* refusal = std::get_if<plan::Refusal>(&made)) return refuse(verb, model, *refusal);
  const auto& step = std::get<plan::StepPlan>(made);
  if (const auto fault = plan::find_fault(step, model.batch())) {
    throw std::logic_error(fmt::format("a bug: the plan that was made does not hold: {}", *fault));
  }
  if (!verb.output.empty()) write_file(verb.output, plan::write_step_plan(step, model.setting()));
  if (!verb.dot.empty()) {
    const program::Program& first = step.programs.front().lowered.program;
    write_file(verb.dot, report::dot_graph(first, report::setting_text(model.setting())));
  }
  write_files(verb, model, step);
  print_plan(verb, model, step);
  return kDone;
}

train::StepRequest request_of(const plan::Setting& setting, const ModelOptions& given) {
  ModelOptions options = given;
  options.model = setting.model;
  options.mode = setting.mode;
  options.optimizer = setting.optimizer;
  options.precision = setting.precision;
  return request_of(options, {.allow = setting.allow}, setting.sizes);
}

int check(const PlanVerb& verb) {
  const std::string text = read_file(verb.check);
  const plan::Setting setting = plan::read_setting(text, verb.check);
  if (!verb.step.model.empty() && verb.step.model != setting.model) {
    throw ArgumentError(
        fmt::format("{} is a plan of {}, not of {}", verb.check, quote(setting.model), quote(verb.step.model)));
  }
  const train::ModelForms model(request_of(setting, verb.step));
  const plan::StepPlan step = plan::read_step_plan(text, verb.check, model.forms());
  if (const auto fault = plan::find_fault(step, model.batch())) {
    throw InputError({.source = verb.check}, fmt::format("the plan does not hold: {}", *fault));
  }
  size_t steps = 0;
  for (const plan::PlannedProgram& program : step.programs) steps += program.plan.steps.size();
  if (verb.step.json) {
    nlohmann::ordered_json json = {{"plan", verb.check}, {"holds", true}};
    json.update(report::setting_json(setting));
    json.update({{"steps", steps},
                 {"budget_bytes", step.budget_bytes},
                 {"arena_bytes", step.arena_bytes},
                 {"micro_batches", step.sizes},
                 {"form", plan::to_json(step.form)}});
    print_json(json);
    return kDone;
  }
  print("{}: holds: {} steps of {}, {}, in {} ({} bytes)\n", verb.check, steps, report::setting_text(setting),
        report::batch_text(step), format_bytes(step.arena_bytes), format_count(step.arena_bytes));
  return kDone;
}

// By roofline, so that the same sources give the same peaks on every machine.
plan::ManifestEntry manifest_entry(const PlanVerb& verb, const Lowered& lowered) {
  plan::ManifestEntry entry;
  entry.unplanned_bytes = plan::plan_memory(lowered).placement.arena_bytes;
  if (verb.budget.budget.empty()) return entry;
  entry.budget_bytes = parse_bytes(verb.budget.budget);
  const auto made = plan::make_plan(lowered, plan_options(verb, entry.budget_bytes));
  const auto* planned = std::get_if<plan::Plan>(&made);
  entry.planned_bytes = planned != nullptr ? planned->arena_bytes : std::get<plan::Refusal>(made).smallest_bytes;
  return entry;
}

int work_on_manifest(const PlanVerb& verb) {
  const train::ModelForms model(request_of(verb.step, {.allow = verb.budget.form.allow, .micro_batches = false}));
  const Lowered lowered = model.least_forms().whole();
  const std::string setting = fmt::format("{}{}, {} threads", report::setting_text(model.setting()),
                                          model.may_quantize() ? " in 8 bits" : "", lowered.threads);
  const plan::ManifestEntry entry = manifest_entry(verb, lowered);
  if (!verb.check_manifest.empty()) {
    const plan::Manifest manifest = plan::read_manifest(read_file(verb.check_manifest), verb.check_manifest);
    const std::string growth = plan::find_growth(manifest, setting, entry);
    if (verb.step.json) {
      print_json(
          {{"manifest", verb.check_manifest}, {"setting", setting}, {"grown", !growth.empty()}, {"why", growth}});
      return growth.empty() ? kDone : kFinding;
    }
    print("{}: {}\n", verb.check_manifest, growth.empty() ? "no peak has grown: " + setting : growth);
    return growth.empty() ? kDone : kFinding;
  }
  plan::Manifest manifest;
  std::error_code unknown;
  if (std::filesystem::is_regular_file(verb.manifest, unknown))
    manifest = plan::read_manifest(read_file(verb.manifest), verb.manifest);
  manifest[setting] = entry;
  write_file(verb.manifest, plan::write_manifest(manifest));
  if (verb.step.json) {
    print_json({{"manifest", verb.manifest},
                {"setting", setting},
                {"unplanned_bytes", entry.unplanned_bytes},
                {"budget_bytes", entry.budget_bytes},
                {"planned_bytes", entry.planned_bytes}});
    return kDone;
  }
  print("{}: {} takes {}\n", verb.manifest, setting, format_bytes(entry.unplanned_bytes));
  return kDone;
}

// A page is of one step.
void require_one_step(const PlanVerb& verb) {
  const bool makes_none =
      verb.max_batch || !verb.check.empty() || !verb.manifest.empty() || !verb.check_manifest.empty();
  if (verb.ranks.ranks > 1 && makes_none) {
    throw ArgumentError("--ranks is of a plan that is made: leave --max-batch, --check and --manifest out");
  }
  if ((verb.page.wants_any() || !verb.output.empty() || !verb.dot.empty()) && makes_none) {
    throw ArgumentError(
        "-o, --dot, --html, --open and --chrome-trace are of a plan that is made: leave --max-batch, --check and "
        "--manifest out");
  }
  if (!verb.check.empty() && !verb.budget.budget.empty()) {
    throw ArgumentError("--check takes the budget from the plan's file: leave --budget out");
  }
}

int run(const PlanVerb& verb) {
  require_one_step(verb);
  if (!verb.check.empty()) return check(verb);
  if (verb.step.model.empty()) throw ArgumentError("MODEL is missing; `plimsoll models` lists them");
  if (!verb.manifest.empty() || !verb.check_manifest.empty()) return work_on_manifest(verb);
  return verb.max_batch ? plan_largest_batch(verb) : make(verb);
}

}  // namespace

void add_plan(const Command& app, int& status) {
  const Command verb = app.add_verb("plan", "Choose how to fit a step into a budget, or say why nothing does");
  verb.footer(
      "Examples: plimsoll plan resnet50 --batch 64 --budget 2GiB -o plan.json\n"
      "          plimsoll plan --check plan.json\n"
      "          plimsoll plan gpt2 --budget 4GiB --max-batch\n"
      "          plimsoll plan gpt2 --batch 64 --ranks 8 --budget 4GiB --link IB");
  const auto options = std::make_shared<PlanVerb>();
  options->budget.form.measure = false;
  add_model_options(verb, options->step);
  add_device_option(verb, options->step);
  verb.option("MODEL").required(false);
  add_optimizer_option(verb, options->step);
  verb.add_option("--precision", options->step.precision, "fp32 bf16 fp16, and tf32 on cards").shows_default();
  verb.add_option("--mode", options->step.mode, "train or infer").shows_default();
  verb.add_option("--budget", options->budget.budget, "Memory for all tensors of the step: 2GiB, 800M, auto");
  verb.add_option("-o,--output", options->output, "Write the plan here, as JSON");
  add_page_options(verb, options->page);
  verb.add_option("--dot", options->dot, "Write the graph (of a micro-batch), with bytes on its edges, for Graphviz");
  verb.add_option("--check", options->check, "Check a plan that was written");
  add_rank_options(verb, options->ranks);
  verb.add_flag("--max-batch", options->max_batch, "Find the largest batch that fits, and the fastest");
  add_allow_option(verb, options->budget.form.allow);
  verb.add_off_flag("--no-grad-accumulation", options->budget.form.micro_batches,
                    "Do not split the batch into micro-batches");
  verb.add_off_flag("--no-recompute", options->budget.form.recompute, "Do not recompute activations");
  verb.add_flag("--measure", options->budget.form.measure, "Time the kernels first, and remember the times");
  verb.add_option("--time-limit", options->time_limit_s, "Seconds that all of it may take")
      .shows_default()
      .in_range(0, 1e6);
  verb.add_flag("--strict", options->budget.strict, "Refuse a budget that is more than the machine has");
  verb.add_option("--spill-dir", options->budget.spill_dir, "Folder on a disk, to which results may go and come back");
  verb.add_option("--manifest", options->manifest, "Enter the predicted peaks into this file");
  verb.add_option("--check-manifest", options->check_manifest, "Fail when a peak is above the one in this file");
  verb.callback([options, &status] {
    options->start = std::chrono::steady_clock::now();
    status = run(*options);
  });
}

}  // namespace plimsoll::cli

#include "plimsoll/plan/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/model_options.h"
#include "cli/plan_text.h"
#include "cli/train_budget.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/file.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/largest_batch.h"
#include "plimsoll/plan/lock.h"
#include "plimsoll/plan/measure.h"
#include "plimsoll/plan/oracle.h"
#include "plimsoll/plan/plan_json.h"

namespace plimsoll::cli {
namespace {

using kernels::Lowered;

constexpr int64_t kMostSamples = int64_t{1} << 20;

struct PlanVerb {
  ModelOptions step;
  std::string budget;
  std::string output;
  std::string check;
  std::string lock;
  std::string check_lock;
  std::string spill_dir;
  bool measure = false;
  bool max_batch = false;
  bool strict = false;
  double time_limit_s = 5;
};

plan::Setting setting_of(const ModelOptions& options, const models::StepOptions& asked) {
  return {options.model, options.mode, options.optimizer, options.precision,
          models::bindings(models::find_model(options.model), asked.sizes)};
}

Lowered prepare_step(const ModelOptions& options, const models::StepOptions& asked) {
  return kernels::prepare(models::build_step(models::find_model(options.model), asked), {.threads = options.threads});
}

int64_t parse_budget_bytes(const PlanVerb& verb) {
  if (verb.budget.empty()) throw ArgumentError("--budget is missing: give a size such as 2GiB, or auto");
  const Budget machine = machine_budget();
  if (verb.budget == "auto") return machine.bytes;
  const int64_t bytes = parse_bytes(verb.budget);
  if (bytes == 0) throw ArgumentError("--budget is 0: nothing runs in no memory");
  if (bytes > machine.bytes && verb.strict) return parse_budget(verb.budget, "--budget").bytes;
  if (bytes > machine.bytes) {
    fmt::print(stderr, "note: --budget is {}, this machine has {} left ({})\n", format_bytes(bytes),
               format_bytes(machine.bytes), machine.source);
  }
  return bytes;
}

plan::CostTable load_or_measure(const PlanVerb& verb, const Lowered& lowered) {
  const std::string path = plan::cost_cache_path();
  plan::LoadedCosts loaded = plan::load_costs(path);
  if (!loaded.note.empty()) fmt::print(stderr, "note: {}\n", loaded.note);
  const size_t known = loaded.table.size();
  if (!verb.spill_dir.empty()) plan::measure_spill(verb.spill_dir, loaded.table);
  if (verb.measure) {
    plan::measure_costs(lowered, machine_budget(), loaded.table, [](size_t done, size_t all) {
      fmt::print(stderr, "\rmeasuring kernels: {} of {}{}", done, all, done == all ? "\n" : "");
    });
  }
  if (loaded.table.size() > known && !path.empty()) plan::save_costs(path, loaded.table);
  return std::move(loaded.table);
}

plan::PlanOptions plan_options(const PlanVerb& verb, int64_t budget_bytes) {
  plan::PlanOptions options;
  options.budget_bytes = budget_bytes;
  options.time_limit_s = verb.time_limit_s;
  return options;
}

std::optional<plan::LargestBatch> largest_batch(const PlanVerb& verb, const plan::CostTable& table,
                                                int64_t budget_bytes) {
  const auto step_of = [&](int64_t batch) {
    models::StepOptions asked = step_options(verb.step);
    asked.sizes["batch"] = batch;
    return prepare_step(verb.step, asked);
  };
  const auto costs = [&](const Lowered& lowered) { return plan::costs_of(lowered, table).seconds; };
  const program::Bindings& most = models::find_model(verb.step.model).most;
  const auto limit = most.find("batch");
  plan::PlanOptions options = plan_options(verb, budget_bytes);
  options.work_limit /= 10;  // for each of some twenty sizes
  return plan::find_largest_batch(step_of, costs, options, limit == most.end() ? kMostSamples : limit->second);
}

int plan_largest_batch(const PlanVerb& verb) {
  const int64_t budget = parse_budget_bytes(verb);
  models::StepOptions asked = step_options(verb.step);
  asked.sizes["batch"] = 1;
  const plan::CostTable table = load_or_measure(verb, prepare_step(verb.step, asked));
  const auto found = largest_batch(verb, table, budget);
  if (!found) {
    fmt::print(stderr, "plimsoll: not even one sample of {} fits in {}\n", verb.step.model, format_bytes(budget));
    return kFinding;
  }
  verb.step.json ? print_batches_json(verb.step.model, budget, *found) : print_batches(verb.step.model, budget, *found);
  return kDone;
}

std::optional<plan::StepPlan> in_parts(const PlanVerb& verb, int64_t budget_bytes) {
  const ModelForms forms(verb.step, {});
  plan::PlanOptions options = plan_options(verb, budget_bytes);
  options.find_smallest = false;
  auto made = plan::plan_step(forms.forms(), options);
  if (std::holds_alternative<plan::Refusal>(made)) return std::nullopt;
  return std::get<plan::StepPlan>(std::move(made));
}

int refuse(const PlanVerb& verb, const PlanReport& report, const plan::Refusal& refusal, const plan::CostTable& table) {
  Alternatives other;
  const auto asked = report.setting.sizes.find("batch");
  if (asked != report.setting.sizes.end() && asked->second > 1) {
    other.smaller_batch = largest_batch(verb, table, refusal.budget_bytes);
    if (report.setting.mode == "train") other.parts = in_parts(verb, refusal.budget_bytes);
  }
  verb.step.json ? print_refusal_json(report, refusal, other) : print_refusal(report, refusal, other);
  return kFinding;
}

int make(const PlanVerb& verb) {
  const int64_t budget = parse_budget_bytes(verb);
  const models::StepOptions asked = step_options(verb.step);
  const Lowered lowered = prepare_step(verb.step, asked);
  plan::CostTable table = load_or_measure(verb, lowered);
  const plan::Costs costs = plan::costs_of(lowered, table);
  plan::PlanOptions options = plan_options(verb, budget);
  options.op_seconds = costs.seconds;
  if (!verb.spill_dir.empty()) options.spill = plan::measure_spill(verb.spill_dir, table);
  if (isatty(STDERR_FILENO) != 0) options.progress = print_progress;
  const PlanReport report{setting_of(verb.step, asked), costs.measured_s, costs.estimated_s};
  const auto made = plan::make_plan(lowered, options);
  if (const auto* refusal = std::get_if<plan::Refusal>(&made)) return refuse(verb, report, *refusal, table);
  const auto& planned = std::get<plan::Plan>(made);
  if (const auto fault = plan::find_fault(planned, lowered)) {
    throw std::logic_error(fmt::format("a bug: the plan that was made does not hold: {}", *fault));
  }
  if (!verb.output.empty()) write_file(verb.output, plan::write_plan(planned, report.setting, lowered.program));
  verb.step.json ? print_plan_json(report, planned) : print_plan(report, planned);
  return kDone;
}

int check(const PlanVerb& verb) {
  const std::string text = read_file(verb.check);
  const plan::Setting setting = plan::read_setting(text, verb.check);
  ModelOptions options = verb.step;
  options.model = setting.model;
  options.mode = setting.mode;
  options.optimizer = setting.optimizer;
  options.precision = setting.precision;
  models::StepOptions asked = step_options(options);
  asked.sizes = setting.sizes;
  const Lowered lowered = prepare_step(options, asked);
  const plan::Plan planned = plan::read_plan(text, verb.check, lowered.program);
  if (const auto fault = plan::find_fault(planned, lowered)) {
    throw InputError({.source = verb.check}, fmt::format("the plan does not hold: {}", *fault));
  }
  fmt::print("{}: holds: {} steps of {} in {} ({} bytes)\n", verb.check, planned.steps.size(), setting_text(setting),
             format_bytes(planned.arena_bytes), format_count(planned.arena_bytes));
  return kDone;
}

// By roofline, so that the same sources give the same peaks on every machine.
plan::LockEntry lock_entry(const PlanVerb& verb, const Lowered& lowered) {
  plan::LockEntry entry;
  entry.unplanned_bytes = plan::plan_memory(lowered).placement.arena_bytes;
  if (verb.budget.empty()) return entry;
  entry.budget_bytes = parse_bytes(verb.budget);
  const auto made = plan::make_plan(lowered, plan_options(verb, entry.budget_bytes));
  const auto* planned = std::get_if<plan::Plan>(&made);
  entry.planned_bytes = planned != nullptr ? planned->arena_bytes : std::get<plan::Refusal>(made).smallest_bytes;
  return entry;
}

int work_on_lock(const PlanVerb& verb) {
  const models::StepOptions asked = step_options(verb.step);
  const Lowered lowered = prepare_step(verb.step, asked);
  const std::string setting =
      fmt::format("{}, {} threads", setting_text(setting_of(verb.step, asked)), lowered.threads);
  const plan::LockEntry entry = lock_entry(verb, lowered);
  if (!verb.check_lock.empty()) {
    const plan::Lock lock = plan::read_lock(read_file(verb.check_lock), verb.check_lock);
    const std::string growth = plan::find_growth(lock, setting, entry);
    fmt::print("{}: {}\n", verb.check_lock, growth.empty() ? "no peak has grown: " + setting : growth);
    return growth.empty() ? kDone : kFinding;
  }
  plan::Lock lock;
  if (std::ifstream(verb.lock).good()) lock = plan::read_lock(read_file(verb.lock), verb.lock);
  lock[setting] = entry;
  write_file(verb.lock, plan::write_lock(lock));
  fmt::print("{}: {} takes {}\n", verb.lock, setting, format_bytes(entry.unplanned_bytes));
  return kDone;
}

int run(const PlanVerb& verb) {
  if (!verb.check.empty()) return check(verb);
  if (verb.step.model.empty()) throw ArgumentError("MODEL is missing; `plimsoll models` lists them");
  if (!verb.lock.empty() || !verb.check_lock.empty()) return work_on_lock(verb);
  return verb.max_batch ? plan_largest_batch(verb) : make(verb);
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("plan", "Choose how to fit a step into a budget, or say why nothing does");
  verb->footer(
      "Examples: plimsoll plan resnet50 --batch 64 --budget 2GiB -o plan.json\n"
      "          plimsoll plan --check plan.json\n"
      "          plimsoll plan gpt2 --budget 4GiB --max-batch");
  const auto options = std::make_shared<PlanVerb>();
  add_model_options(*verb, options->step);
  verb->get_option("MODEL")->required(false);
  add_optimizer_option(*verb, options->step);
  verb->add_option("--precision", options->step.precision, "f32")->capture_default_str();
  verb->add_option("--mode", options->step.mode, "train or infer")->capture_default_str();
  verb->add_option("--budget", options->budget, "Memory for all tensors of the step: 2GiB, 800M, auto");
  verb->add_option("-o,--output", options->output, "Write the plan here, as JSON");
  verb->add_option("--check", options->check, "Check a plan that was written");
  verb->add_flag("--max-batch", options->max_batch, "Find the largest batch that fits, and the fastest");
  verb->add_flag("--measure", options->measure, "Time the kernels first, and remember the times");
  verb->add_option("--time-limit", options->time_limit_s, "Seconds of search at most")->capture_default_str();
  verb->add_flag("--strict", options->strict, "Refuse a budget that is more than the machine has");
  verb->add_option("--spill-dir", options->spill_dir, "Folder on a disk, to which results may go and come back");
  verb->add_option("--lock", options->lock, "Enter the predicted peaks into this file");
  verb->add_option("--check-lock", options->check_lock, "Fail when a peak is above the one in this file");
  verb->callback([options, &status] { status = run(*options); });
}

}  // namespace plimsoll::cli

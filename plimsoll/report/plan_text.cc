#include "plimsoll/report/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/plan/batch_chunks.h"
#include "plimsoll/plan/step_plan_json.h"
#include "plimsoll/train/fit_model.h"

namespace plimsoll::report {
namespace {

constexpr size_t kShownMeasures = 12;

// Of a measure, in the words of the field.
std::string name_of(const plan::Measure& measure) {
  if (measure.kind == "micro-batches") {
    const size_t blank = measure.what.find(' ');
    return fmt::format("gradient accumulation x{} ({})", measure.what.substr(0, blank), measure.what.substr(blank + 1));
  }
  if (measure.kind == "batch-chunks") return fmt::format("batch chunks ({})", measure.what);
  return measure.kind + " " + measure.what;
}

std::string measures_text(const std::vector<plan::Measure>& all) {
  if (all.empty()) return "  measures    none: it fits as it is\n";
  const std::vector<plan::Measure> measures = plan::by_op(all);
  std::string text;
  const auto add = std::back_inserter(text);
  fmt::format_to(add, "\n  {:>11} {:>11} {:>6}  {}\n", "saved", "costs", "times", "measure");
  const size_t shown = std::min(measures.size(), kShownMeasures);
  for (const plan::Measure& measure : std::span(measures).first(shown)) {
    fmt::format_to(add, "  {:>11} {:>11} {:>6}  {}\n", format_bytes(measure.saved_bytes),
                   format_seconds(measure.cost_s), measure.times, name_of(measure));
  }
  if (shown < measures.size()) fmt::format_to(add, "  and {} kinds more (--json lists all)\n", measures.size() - shown);
  return text;
}

void add_costs(nlohmann::ordered_json& json, const plan::Costs& costs) {
  json["measured_s"] = costs.measured_s;
  json["scaled_s"] = costs.scaled_s;
  json["estimated_s"] = costs.estimated_s;
}

nlohmann::ordered_json batch_json(const plan::PlannedBatch& batch) {
  nlohmann::ordered_json json = {
      {"batch", batch.batch}, {"arena_bytes", batch.arena_bytes}, {"predicted_s", batch.predicted_s}};
  if (!batch.form.empty()) json["form"] = batch.form;
  return json;
}

nlohmann::ordered_json largest_json(const plan::LargestBatch& found) {
  nlohmann::ordered_json json = {{"largest", batch_json(found.largest)},
                                 {"fastest", batch_json(found.fastest)},
                                 {"looked_at", nlohmann::ordered_json::array()}};
  for (const plan::PlannedBatch& batch : found.looked_at) json["looked_at"].push_back(batch_json(batch));
  return json;
}

}  // namespace

std::string setting_text(const plan::Setting& setting) {
  std::string text = setting.model;
  for (const auto& [symbol, size] : setting.sizes) text += fmt::format(", {} {}", symbol, size);
  text += ", " + setting.precision;
  return text + (setting.mode == "train" ? ", training with " + setting.optimizer : std::string(", inference"));
}

std::string predicted_text(const plan::StepPlan& step, double seconds) {
  if (step.costs().is_measured()) return format_seconds(seconds);
  const plan::SecondsRange range = step.predicted_range();
  const double each = seconds / step.predicted_s;
  return fmt::format("{} to {}", format_seconds(range.low * each), format_seconds(range.high * each));
}

std::string batch_text(const plan::StepPlan& step) {
  const std::vector<int64_t>& sizes = step.sizes;
  if (step.form.chunks > 1) return fmt::format("the batch as a whole, {}", plan::chunks_text(step.form));
  if (sizes.size() == 1) return "the batch as a whole";
  std::string text = fmt::format("the batch in {} micro-batches of {}", sizes.size(), sizes.front());
  if (sizes.back() != sizes.front()) text += fmt::format(", the last of {}", sizes.back());
  return text;
}

std::string costs_text(const plan::Costs& costs) {
  const double whole = std::max(1e-12, costs.measured_s + costs.scaled_s + costs.estimated_s);
  const double measured = std::round(100 * costs.measured_s / whole);
  const double scaled = std::round(100 * costs.scaled_s / whole);
  return fmt::format("{:.0f} % measured on this machine, {:.0f} % scaled from like ops, {:.0f} % by roofline", measured,
                     scaled, 100 - measured - scaled);
}

std::string measure_text(const plan::Measure& measure) {
  return fmt::format("{}: -{}, +{} a step", name_of(measure), format_bytes(measure.saved_bytes),
                     format_seconds(measure.cost_s));
}

nlohmann::ordered_json setting_json(const plan::Setting& setting) {
  return {{"model", setting.model},         {"sizes", setting.sizes},         {"mode", setting.mode},
          {"optimizer", setting.optimizer}, {"precision", setting.precision}, {"allow", setting.allow}};
}

std::string plan_text(const plan::Setting& setting, const plan::StepPlan& step) {
  std::string text;
  const auto add = std::back_inserter(text);
  const auto line = [&](std::string_view what, int64_t bytes, std::string_view note) {
    fmt::format_to(add, "  {:<10} {:>11}  {:>18} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
  };
  fmt::format_to(add, "{}\n", setting_text(setting));
  line("unplanned", step.unplanned_bytes, fmt::format("{} a step", predicted_text(step, step.unplanned_s)));
  line("budget", step.budget_bytes, "for the tensors of the step");
  line(
      "plan", step.arena_bytes,
      fmt::format("{} a step: {:+.1f} %, at most {:.1f} % above the fastest {}", predicted_text(step, step.predicted_s),
                  (step.predicted_s / step.unplanned_s - 1) * 100, (step.predicted_s / step.bound_s() - 1) * 100,
                  step.in_micro_batches() || step.form.chunks > 1 ? "in this form" : "there can be"));
  if (step.in_micro_batches() || step.form.chunks > 1) fmt::format_to(add, "  batch       {}\n", batch_text(step));
  if (step.file_bytes() > 0) line("spilled", step.file_bytes(), "that go to the spill file and come back");
  fmt::format_to(add, "  times       {}{}\n", costs_text(step.costs()),
                 step.costs().measured_s == 0 ? " (--measure times them)" : "");
  if (step.is_cut_short())
    fmt::format_to(add, "  search      cut short by --time-limit: another run may find another plan\n");
  return text + measures_text(step.measures());
}

nlohmann::ordered_json plan_json(const plan::Setting& setting, const plan::StepPlan& step) {
  nlohmann::ordered_json json = setting_json(setting);
  add_costs(json, step.costs());
  json["fits"] = true;
  json["budget_bytes"] = step.budget_bytes;
  json["arena_bytes"] = step.arena_bytes;
  json["unplanned_bytes"] = step.unplanned_bytes;
  json["file_bytes"] = step.file_bytes();
  json["predicted_s"] = step.predicted_s;
  json["predicted_low_s"] = step.predicted_range().low;
  json["predicted_high_s"] = step.predicted_range().high;
  json["unplanned_s"] = step.unplanned_s;
  json["bound_s"] = step.bound_s();
  json["cut_short"] = step.is_cut_short();
  json["micro_batches"] = step.sizes;
  json["form"] = plan::to_json(step.form);
  json["steps"] = nlohmann::ordered_json::array();
  for (const plan::PlannedProgram& program : step.programs) json["steps"].push_back(program.plan.steps.size());
  json["measures"] = plan::to_json(step.measures());
  return json;
}

std::string refusal_text(const RefusedStep& refused) {
  const plan::Refusal& refusal = refused.refusal;
  std::string text;
  const auto add = std::back_inserter(text);
  fmt::format_to(add, "{} does not fit in {}\n", setting_text(refused.setting), format_bytes(refusal.budget_bytes));
  fmt::format_to(add, "  smallest budget: {} ({} bytes, about {} a step); no plan can be below {}\n",
                 format_bytes(refusal.smallest_bytes), format_count(refusal.smallest_bytes),
                 format_seconds(refusal.smallest_s), format_bytes(refusal.bound_bytes));
  std::string needs = fmt::format("{} that come in", format_bytes(refusal.resident_bytes));
  for (const plan::Refusal::Held& held : refusal.binding) {
    needs += fmt::format(", {} {}", held.name, format_bytes(held.bytes));
  }
  fmt::format_to(add, "  set by {}: {}\n", refusal.binding_op, needs);
  if (refusal.cut_short) fmt::format_to(add, "  the search was cut short by --time-limit: less may do\n");
  if (!refused.why_whole.empty()) fmt::format_to(add, "  {}\n", refused.why_whole);
  if (!refused.ways.empty()) fmt::format_to(add, "  fits with: {}\n", train::alternatives_text(refused.ways));
  return text;
}

nlohmann::ordered_json refusal_json(const RefusedStep& refused) {
  const plan::Refusal& refusal = refused.refusal;
  nlohmann::ordered_json json = setting_json(refused.setting);
  json["fits"] = false;
  json["budget_bytes"] = refusal.budget_bytes;
  json["smallest_bytes"] = refusal.smallest_bytes;
  json["smallest_s"] = refusal.smallest_s;
  json["bound_bytes"] = refusal.bound_bytes;
  json["unplanned_bytes"] = refusal.unplanned_bytes;
  json["binding_op"] = refusal.binding_op;
  json["resident_bytes"] = refusal.resident_bytes;
  json["binding"] = nlohmann::ordered_json::array();
  for (const plan::Refusal::Held& held : refusal.binding) {
    json["binding"].push_back({{"name", held.name}, {"bytes", held.bytes}});
  }
  json["cut_short"] = refusal.cut_short;
  json["why_whole"] = refused.why_whole;
  json["alternatives"] = alternatives_json(refused.ways);
  return json;
}

nlohmann::ordered_json alternatives_json(const std::vector<train::Alternative>& ways) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const train::Alternative& way : ways) {
    json.push_back({{"how", way.how()},
                    {"note", way.note},
                    {"arena_bytes", way.arena_bytes},
                    {"seconds_a_sample", way.seconds_a_sample}});
  }
  return json;
}

std::string batches_text(std::string_view model, int64_t budget_bytes, const Batches& found) {
  std::string text;
  const auto add = std::back_inserter(text);
  const auto line = [&](std::string_view what, const plan::PlannedBatch& batch) {
    fmt::format_to(add, "  {:<19} {:>6}  {:>11}  {} a step, {} a sample{}{}\n", what, batch.batch,
                   format_bytes(batch.arena_bytes), format_seconds(batch.predicted_s),
                   format_seconds(batch.seconds_per_sample()), batch.form.empty() ? "" : ", ", batch.form);
  };
  fmt::format_to(add, "{} in {}\n", model, format_bytes(budget_bytes));
  line("largest batch", found.whole.largest);
  line("fastest batch", found.whole.fastest);
  if (found.cut_short) text += "  --time-limit cut the search short: larger ones may fit\n";
  if (!found.micro_batch) return text;
  line("largest micro-batch", found.micro_batch->largest);
  line("fastest micro-batch", found.micro_batch->fastest);
  fmt::format_to(add, "  any batch fits in micro-batches\n");
  return text;
}

nlohmann::ordered_json batches_json(std::string_view model, int64_t budget_bytes, const Batches& found) {
  nlohmann::ordered_json json = {{"model", model}, {"budget_bytes", budget_bytes}};
  json.update(largest_json(found.whole));
  if (found.micro_batch) json["micro_batch"] = largest_json(*found.micro_batch);
  json["cut_short"] = found.cut_short;
  return json;
}

}  // namespace plimsoll::report

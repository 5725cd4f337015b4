// Plans, refusals and batches as the plan verb prints them.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/largest_batch.h"
#include "plimsoll/plan/parts.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/plan/plan_json.h"

namespace plimsoll::cli {

inline constexpr size_t kShownMeasures = 12;

// What was asked, and how much of the time of a step is known from measurements.
struct PlanReport {
  plan::Setting setting;
  double measured_s = 0;
  double estimated_s = 0;
};

// "resnet50, batch 32, f32, training with adam"
inline std::string setting_text(const plan::Setting& setting) {
  std::string text = setting.model;
  for (const auto& [symbol, size] : setting.sizes) text += fmt::format(", {} {}", symbol, size);
  text += ", " + setting.precision;
  return text + (setting.mode == "train" ? ", training with " + setting.optimizer : std::string(", inference"));
}

// "1.204 s", "38.1 ms"
inline std::string seconds_text(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3f} s", seconds) : fmt::format("{:.1f} ms", seconds * 1e3);
}

inline void print_progress(const plan::Progress& progress) {
  fmt::print(stderr, "\rplanning: {} in {} a step so far   \r", format_bytes(progress.live_bytes),
             seconds_text(progress.predicted_s));
}

inline void print_costs(const PlanReport& report) {
  const double whole = report.measured_s + report.estimated_s;
  const double share = whole > 0 ? report.measured_s / whole : 0;
  fmt::print("  times       {:.0f} % measured on this machine, {:.0f} % by roofline{}\n", share * 100,
             (1 - share) * 100, share < 1 ? " (--measure times them)" : "");
}

inline void print_measures(const plan::Plan& planned) {
  if (planned.measures.empty()) return fmt::print("  measures    none: it fits as it is\n");
  int64_t saved = 0;
  size_t spilled = 0;
  for (const plan::Measure& measure : planned.measures) {
    saved += measure.saved_bytes;
    spilled += measure.kind == "spill" ? 1 : 0;
  }
  const std::string to_file = spilled == 0 ? "" : fmt::format(", {} spilled", spilled);
  fmt::print("  measures    {} results computed again{}: {} less at the fullest moment\n",
             planned.measures.size() - spilled, to_file, format_bytes(saved));
  fmt::print("\n  {:>12} {:>10}  {:>5}  {}\n", "saved", "costs", "times", "measure");
  const size_t shown = std::min(planned.measures.size(), kShownMeasures);
  for (const plan::Measure& measure : std::span(planned.measures).first(shown)) {
    fmt::print("  {:>12} {:>10}  {:>5}  {} of {}\n", format_bytes(measure.saved_bytes), seconds_text(measure.cost_s),
               measure.times, measure.kind, measure.what);
  }
  if (shown < planned.measures.size())
    fmt::print("  and {} more (--json lists all)\n", planned.measures.size() - shown);
}

inline void print_plan(const PlanReport& report, const plan::Plan& planned) {
  const auto line = [](std::string_view what, int64_t bytes, std::string_view note) {
    fmt::print("  {:<10} {:>11}  {:>18} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
  };
  fmt::print("{}\n", setting_text(report.setting));
  line("unplanned", planned.unplanned_bytes, fmt::format("{} a step", seconds_text(planned.unplanned_s)));
  line("budget", planned.budget_bytes, "for the tensors of the step");
  line("plan", planned.arena_bytes,
       fmt::format("{} a step: {:+.1f} %, at most {:.1f} % above the fastest there can be",
                   seconds_text(planned.predicted_s), (planned.predicted_s / planned.unplanned_s - 1) * 100,
                   (planned.predicted_s / planned.bound_s - 1) * 100));
  print_costs(report);
  if (planned.cut_short) fmt::print("  search      cut short by --time-limit: another run may find another plan\n");
  print_measures(planned);
}

inline nlohmann::ordered_json setting_json(const PlanReport& report) {
  return {{"model", report.setting.model},         {"sizes", report.setting.sizes},
          {"mode", report.setting.mode},           {"optimizer", report.setting.optimizer},
          {"precision", report.setting.precision}, {"measured_s", report.measured_s},
          {"estimated_s", report.estimated_s}};
}

inline void print_plan_json(const PlanReport& report, const plan::Plan& planned) {
  nlohmann::ordered_json json = setting_json(report);
  json["fits"] = true;
  json["budget_bytes"] = planned.budget_bytes;
  json["arena_bytes"] = planned.arena_bytes;
  json["unplanned_bytes"] = planned.unplanned_bytes;
  json["file_bytes"] = planned.file_bytes;
  json["predicted_s"] = planned.predicted_s;
  json["unplanned_s"] = planned.unplanned_s;
  json["bound_s"] = planned.bound_s;
  json["cut_short"] = planned.cut_short;
  json["steps"] = planned.steps.size();
  json["measures"] = nlohmann::ordered_json::array();
  for (const plan::Measure& measure : planned.measures) {
    json["measures"].push_back({{"kind", measure.kind},
                                {"what", measure.what},
                                {"times", measure.times},
                                {"saved_bytes", measure.saved_bytes},
                                {"cost_s", measure.cost_s}});
  }
  fmt::print("{}\n", json.dump(2));
}

// What would fit instead.
struct Alternatives {
  std::optional<plan::LargestBatch> smaller_batch;
  std::optional<plan::StepPlan> parts;
};

// "--batch 8 (1.97 GiB, 41.0 ms a sample) | the batch in 4 parts of 8 (1.99 GiB, 1.312 s a step; plimsoll train does
// that)"
inline std::string alternatives_text(const Alternatives& other) {
  std::vector<std::string> ways;
  if (other.parts) {
    ways.push_back(fmt::format("the batch in {} parts of {} ({}, {} a step: plimsoll train does that)",
                               other.parts->sizes.size(), other.parts->sizes.front(),
                               format_bytes(other.parts->arena_bytes), seconds_text(other.parts->predicted_s)));
  }
  if (other.smaller_batch) {
    const plan::PlannedBatch& batch = other.smaller_batch->largest;
    ways.push_back(fmt::format("--batch {} ({}, {} a sample)", batch.batch, format_bytes(batch.arena_bytes),
                               seconds_text(batch.seconds_per_sample())));
  }
  return fmt::format("{}", fmt::join(ways, " | "));
}

inline void print_refusal(const PlanReport& report, const plan::Refusal& refusal, const Alternatives& other) {
  fmt::print(stderr, "plimsoll: {} does not fit in {}\n", setting_text(report.setting),
             format_bytes(refusal.budget_bytes));
  fmt::print(stderr, "  smallest budget: {} ({} bytes, {} a step); no plan can be below {}\n",
             format_bytes(refusal.smallest_bytes), format_count(refusal.smallest_bytes),
             seconds_text(refusal.smallest_s), format_bytes(refusal.bound_bytes));
  std::string needs = fmt::format("{} that come in", format_bytes(refusal.resident_bytes));
  for (const plan::Refusal::Held& held : refusal.binding) {
    needs += fmt::format(", {} {}", held.name, format_bytes(held.bytes));
  }
  fmt::print(stderr, "  set by {}: {}\n", refusal.binding_op, needs);
  if (refusal.cut_short) fmt::print(stderr, "  the search was cut short by --time-limit: less may do\n");
  const std::string ways = alternatives_text(other);
  if (!ways.empty()) fmt::print(stderr, "  fits with: {}\n", ways);
}

inline nlohmann::ordered_json batch_json(const plan::PlannedBatch& batch) {
  return {{"batch", batch.batch}, {"arena_bytes", batch.arena_bytes}, {"predicted_s", batch.predicted_s}};
}

inline void print_refusal_json(const PlanReport& report, const plan::Refusal& refusal, const Alternatives& other) {
  nlohmann::ordered_json json = setting_json(report);
  json["fits"] = false;
  json["budget_bytes"] = refusal.budget_bytes;
  json["smallest_bytes"] = refusal.smallest_bytes;
  json["smallest_s"] = refusal.smallest_s;
  json["bound_bytes"] = refusal.bound_bytes;
  json["binding_op"] = refusal.binding_op;
  json["resident_bytes"] = refusal.resident_bytes;
  json["binding"] = nlohmann::ordered_json::array();
  for (const plan::Refusal::Held& held : refusal.binding) {
    json["binding"].push_back({{"name", held.name}, {"bytes", held.bytes}});
  }
  json["cut_short"] = refusal.cut_short;
  if (other.smaller_batch) json["largest_batch"] = batch_json(other.smaller_batch->largest);
  if (other.parts) {
    json["parts"] = {{"sizes", other.parts->sizes},
                     {"arena_bytes", other.parts->arena_bytes},
                     {"predicted_s", other.parts->predicted_s}};
  }
  fmt::print("{}\n", json.dump(2));
}

inline void print_batches(std::string_view model, int64_t budget_bytes, const plan::LargestBatch& found) {
  const auto line = [](std::string_view what, const plan::PlannedBatch& batch) {
    fmt::print("  {:<8} batch {:>7}  {:>11}  {} a step, {} a sample\n", what, batch.batch,
               format_bytes(batch.arena_bytes), seconds_text(batch.predicted_s),
               seconds_text(batch.seconds_per_sample()));
  };
  fmt::print("{} in {}\n", model, format_bytes(budget_bytes));
  line("largest", found.largest);
  line("fastest", found.fastest);
}

inline void print_batches_json(std::string_view model, int64_t budget_bytes, const plan::LargestBatch& found) {
  nlohmann::ordered_json json = {{"model", model},
                                 {"budget_bytes", budget_bytes},
                                 {"largest", batch_json(found.largest)},
                                 {"fastest", batch_json(found.fastest)},
                                 {"looked_at", nlohmann::ordered_json::array()}};
  for (const plan::PlannedBatch& batch : found.looked_at) json["looked_at"].push_back(batch_json(batch));
  fmt::print("{}\n", json.dump(2));
}

}  // namespace plimsoll::cli

// Plans, refusals and batches as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/plan/largest_batch.h"
#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/plan/plan_json.h"
#include "plimsoll/train/alternatives.h"

namespace plimsoll::report {

// "resnet50, batch 32, f32, training with adam"
std::string setting_text(const plan::Setting& setting);

// "the batch in 4 micro-batches of 8, the last of 3"
std::string batch_text(const plan::StepPlan& step);

// A time that the step's costs give: "1.204 s"; where they were not measured, "0.9 s to 2.7 s".
std::string predicted_text(const plan::StepPlan& step, double seconds);

// "80 % measured on this machine, 15 % scaled from like ops, 5 % by roofline"
std::string costs_text(const plan::Costs& costs);

// "gradient accumulation x86 (micro-batches of 3): -44.98 GiB, +14.334 s a step"
std::string measure_text(const plan::Measure& measure);

nlohmann::ordered_json setting_json(const plan::Setting& setting);

// A whole plan.
std::string plan_text(const plan::Setting& setting, const plan::StepPlan& step);
nlohmann::ordered_json plan_json(const plan::Setting& setting, const plan::StepPlan& step);

// A step that does not fit, what would, and why its batch is taken as a whole (empty: it need not be).
struct RefusedStep {
  const plan::Setting& setting;
  const plan::Refusal& refusal;
  const std::vector<train::Alternative>& ways;
  std::string why_whole;
};

std::string refusal_text(const RefusedStep& refused);
nlohmann::ordered_json refusal_json(const RefusedStep& refused);
nlohmann::ordered_json alternatives_json(const std::vector<train::Alternative>& ways);

// The largest batch and the fastest; the same for micro-batches, where the batch can be divided.
struct Batches {
  plan::LargestBatch whole;
  std::optional<plan::LargestBatch> micro_batch;
  bool cut_short = false;  // by a time limit: larger ones may fit
};

std::string batches_text(std::string_view model, int64_t budget_bytes, const Batches& found);
nlohmann::ordered_json batches_json(std::string_view model, int64_t budget_bytes, const Batches& found);

}  // namespace plimsoll::report

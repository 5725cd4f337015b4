// Plans, refusals and batches as the plan verb prints them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/model_forms.h"
#include "plimsoll/plan/largest_batch.h"
#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/plan/plan_json.h"
#include "plimsoll/train/fit_model.h"

namespace plimsoll::cli {

// "resnet50, batch 32, f32, training with adam"
std::string setting_text(const plan::Setting& setting);

// A time that the step's costs give: "1.204 s"; where they were not measured, "0.9 s to 2.7 s".
std::string predicted_text(const plan::StepPlan& step, double seconds);

// What is tried, and the best of it so far.
std::function<void(const plan::Progress&)> planning_progress();

// "80 % measured on this machine, 15 % scaled from like ops, 5 % by roofline"
std::string costs_text(const plan::Costs& costs);

// "gradient accumulation x86 (micro-batches of 3): -44.98 GiB, +14.334 s a step"
std::string measure_text(const plan::Measure& measure);

void print_step(const plan::Setting& setting, const plan::StepPlan& step);

nlohmann::ordered_json setting_json(const plan::Setting& setting);

void print_step_json(const plan::Setting& setting, const plan::StepPlan& step);

void print_refusal(const plan::Setting& setting, const plan::Refusal& refusal,
                   const std::vector<train::Alternative>& ways, const std::string& why_whole);

nlohmann::ordered_json alternatives_json(const std::vector<train::Alternative>& ways);

void print_refusal_json(const plan::Setting& setting, const plan::Refusal& refusal,
                        const std::vector<train::Alternative>& ways, const std::string& why_whole);

// The largest batch and the fastest; the same for micro-batches, where the batch can be divided.
struct Batches {
  plan::LargestBatch whole;
  std::optional<plan::LargestBatch> micro_batch;
};

void print_batches(std::string_view model, int64_t budget_bytes, const Batches& found);

void print_batches_json(std::string_view model, int64_t budget_bytes, const Batches& found);

}  // namespace plimsoll::cli

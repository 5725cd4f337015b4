// What would fit where a step does not: each is planned, so its bytes and its time are as good as a plan's.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_forms.h"
#include "plimsoll/plan/largest_batch.h"

namespace plimsoll::cli {

struct Alternative {
  std::string how;  // to be given to the verb: "--batch 48"
  std::string note = {};
  int64_t arena_bytes = 0;
  double seconds_a_sample = 0;
};

inline constexpr int64_t kMostSamples = int64_t{1} << 20;

// The whole batch at once, of so many samples, with its state in 8 bits where that is allowed.
inline plan::StepOfBatch step_of_batch(const ModelOptions& options, const FormOptions& form) {
  const bool coded = parse_allowed(form.allow).eight_bit_state;
  return [options, coded](int64_t batch) {
    models::StepOptions asked = step_options(options);
    asked.sizes["batch"] = batch;
    asked.train.eight_bit_state = coded;
    return kernels::prepare(models::build_step(models::find_model(options.model), asked), {.threads = options.threads});
  };
}

inline int64_t most_samples(const std::string& model) {
  const program::Bindings& most = models::find_model(model).most;
  const auto limit = most.find("batch");
  return limit == most.end() ? kMostSamples : limit->second;
}

class AlternativeSearch {
 public:
  AlternativeSearch(const ModelOptions& options, const FormOptions& form, const plan::PlanOptions& search)
      : options_(options), form_(form), search_(search) {
    constexpr int kEffort = 10;  // of a search, for each of some twenty settings
    search_.work_limit /= kEffort;
    search_.find_smallest = false;
    search_.progress = nullptr;
    form_.measure = false;
  }

  // The fastest first. `why_whole`: why the batch is not taken in parts.
  std::vector<Alternative> run(const std::string& why_whole) {
    const models::ModelInfo& model = models::find_model(options_.model);
    const program::Bindings sizes = models::bindings(model, step_options(options_).sizes);
    const Allowed allowed = parse_allowed(form_.allow);
    if (form_.parts && !allowed.batch_norm_parts && why_whole.find("batch_norm") != why_whole.npos) {
      allow(kBatchNormParts, "changes the statistics");
    }
    const models::StepOptions asked = step_options(options_);
    const bool has_state = asked.training && asked.train.optimizer != program::Optimizer::sgd;
    if (has_state && !allowed.eight_bit_state) allow(kEightBitState, "rounds the optimizer's state");
    if (search_.spill.bytes_per_s == 0) spill();
    if (sizes.at("batch") > 1) take_smaller_batch(sizes.at("batch"));
    if (sizes.contains("sequence")) take_shorter_samples(sizes.at("sequence"));
    if (options_.precision == "f32") take_halves();
    std::stable_sort(found_.begin(), found_.end(), [](const Alternative& a, const Alternative& b) {
      return a.seconds_a_sample < b.seconds_a_sample;
    });
    return std::move(found_);
  }

 private:
  // All together take about twice the time of the search that failed, at most.
  plan::PlanOptions limited() const {
    constexpr double kShare = 0.5;  // of what is left of its time
    constexpr double kLeast = 0.3;  // of its time
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
    plan::PlanOptions limited = search_;
    limited.time_limit_s = std::max(kLeast * search_.time_limit_s, kShare * (search_.time_limit_s - since.count()));
    return limited;
  }

  bool plans(const ModelOptions& options, const FormOptions& form, std::string how, std::string note,
             StateForm state = StateForm::any) {
    const ModelForms forms(options, form);
    const auto made = plan::plan_step(forms.forms(state), limited());
    const auto* step = std::get_if<plan::StepPlan>(&made);
    if (step == nullptr) return false;
    const double each = step->predicted_s / static_cast<double>(forms.batch());
    found_.push_back({std::move(how), std::move(note), step->arena_bytes, each});
    return true;
  }

  void allow(std::string_view measure, const char* note) {
    FormOptions form = form_;
    form.allow.emplace_back(measure);
    const StateForm state = measure == kEightBitState ? StateForm::coded : StateForm::any;  // f32 was tried
    plans(options_, form, fmt::format("--allow {}", measure), note, state);
  }

  // To a disk as one commonly is: there is none yet to measure.
  void spill() {
    constexpr plan::SpillOptions kCommon = {.bytes_per_s = 5e8, .processor_s_per_byte = 3e-10};
    const plan::SpillOptions none = std::exchange(search_.spill, kCommon);
    plans(options_, form_, "--spill-dir DIR", "with a disk of 500 MB/s");
    search_.spill = none;
  }

  void take_halves() {
    ModelOptions options = options_;
    options.precision = "bf16";
    try {
      plans(options, form_, "--precision bf16", "changes the rounding");
    } catch (const UnsupportedError&) {  // no kernels for some op
    }
  }

  void take_smaller_batch(int64_t batch) {
    KnownCosts known;
    const auto costs = [&](const kernels::Lowered& lowered) { return known.of(lowered).seconds; };
    const auto found = plan::find_largest_batch(step_of_batch(options_, form_), costs, limited(), batch - 1);
    if (!found) return;
    found_.push_back({fmt::format("--batch {}", found->largest.batch), "", found->largest.arena_bytes,
                      found->largest.seconds_per_sample()});
  }

  void take_shorter_samples(int64_t tokens) {
    ModelOptions options = options_;
    for (int64_t half = tokens / 2; half > 0; half /= 2) {
      options.sequence = half;
      if (plans(options, form_, fmt::format("--seq {}", half), "shorter samples")) return;
    }
  }

  ModelOptions options_;
  FormOptions form_;
  plan::PlanOptions search_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Alternative> found_;
};

// "--batch 8 (1.97 GiB, 41.0 ms a sample) | --allow batch-norm-parts (1.99 GiB, 52.3 ms a sample, changes ..)"
inline std::string alternatives_text(const std::vector<Alternative>& ways) {
  std::string text;
  for (const Alternative& way : ways) {
    text +=
        fmt::format("{}{} ({}, {:.1f} ms a sample{}{})", text.empty() ? "" : " | ", way.how,
                    format_bytes(way.arena_bytes), way.seconds_a_sample * 1e3, way.note.empty() ? "" : ", ", way.note);
  }
  return text;
}

}  // namespace plimsoll::cli

#include "plimsoll/train/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "plimsoll/base/error.h"

namespace plimsoll::train {
namespace {

class AlternativeSearch {
 public:
  AlternativeSearch(const StepRequest& request, const plan::PlanOptions& search) : request_(request), search_(search) {
    constexpr int kEffort = 10;  // of a search, for each of some twenty settings
    search_.work_limit /= kEffort;
    search_.find_smallest = false;
    search_.progress = nullptr;
    request_.measure = false;
  }

  std::vector<Alternative> run(const std::string& why_whole) {
    const program::Bindings sizes = models::bindings(request_.model, request_.step.sizes);
    const Allowed allowed = parse_allowed(request_.allow);
    const bool has_state = request_.step.training && request_.step.train.optimizer != program::Optimizer::sgd;
    std::vector<std::function<void()>> ways;
    if (request_.micro_batches && !allowed.batch_norm_micro_batches && why_whole.find("batch_norm") != why_whole.npos) {
      ways.emplace_back([this] { allow(kBatchNormMicroBatches, "changes the statistics"); });
    }
    if (has_state && !allowed.eight_bit_state) {
      ways.emplace_back([this] { allow(kEightBitState, "rounds the optimizer's state"); });
    }
    if (!search_.recompute) ways.emplace_back([this] { recompute(); });
    if (search_.spill.bytes_per_s == 0) ways.emplace_back([this] { spill(); });
    const auto is_open = [&](const char* symbol) { return !request_.model.fixed.contains(symbol); };
    if (sizes.at("batch") > 1 && is_open("batch")) ways.emplace_back([&] { take_smaller_batch(sizes.at("batch")); });
    if (sizes.contains("sequence") && is_open("sequence"))
      ways.emplace_back([&] { take_shorter_samples(sizes.at("sequence")); });
    if (request_.step.precision == DType::f32) ways.emplace_back([this] { take_bf16(); });
    for (size_t i = 0; i < ways.size() && !search_.deadline.has_passed(); ++i) {
      deadline_ = search_.deadline.share(1.0 / static_cast<double>(ways.size() - i));
      ways[i]();
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Alternative& a, const Alternative& b) {
      return a.seconds_a_sample < b.seconds_a_sample;
    });
    return std::move(found_);
  }

 private:
  void show(const std::string& how) const {
    if (request_.listener.on_alternative) request_.listener.on_alternative(how);
  }

  plan::PlanOptions limited() const {
    plan::PlanOptions limited = search_;
    limited.deadline = deadline_;
    return limited;
  }

  bool plans(const StepRequest& request, Alternative way, StateForm state = StateForm::any) {
    if (deadline_.has_passed()) return false;
    show(way.how());
    const ModelForms forms(request);
    const auto made = plan::plan_step(forms.forms(state), limited());
    const auto* step = std::get_if<plan::StepPlan>(&made);
    if (step == nullptr) return false;
    way.arena_bytes = step->arena_bytes;
    way.steps = step->steps();
    way.seconds_a_sample = step->predicted_s / static_cast<double>(forms.batch());
    found_.push_back(std::move(way));
    return true;
  }

  void allow(std::string_view measure, const char* note) {
    StepRequest request = request_;
    request.allow.emplace_back(measure);
    const StateForm state = measure == kEightBitState ? StateForm::quantized : StateForm::any;  // f32 was tried
    plans(request, {"allow", std::string(measure), note}, state);
  }

  // To a disk as one commonly is: there is none yet to measure.
  void spill() {
    constexpr plan::SpillOptions kCommon = {.bytes_per_s = 5e8, .processor_s_per_byte = 3e-10};
    const plan::SpillOptions none = std::exchange(search_.spill, kCommon);
    plans(request_, {"spill-dir", "DIR", "with a disk of 500 MB/s"});
    search_.spill = none;
  }

  void recompute() {
    search_.recompute = true;
    plans(request_, {"recompute", "true", "exact"});
    search_.recompute = false;
  }

  void take_bf16() {
    StepRequest request = request_;
    request.step.precision = DType::bf16;
    try {
      plans(request, {"precision", "bf16", "changes the rounding"});
    } catch (const UnsupportedError&) {  // no kernels for some op, or a model that was built in f32
    }
  }

  void take_smaller_batch(int64_t batch) {
    show("--batch");
    const KnownCosts known;
    const auto costs = [&](const kernels::Lowered& lowered) { return known.of(lowered).seconds; };
    const auto found = plan::find_largest_batch(step_of_batch(request_), costs, limited(), batch - 1);
    if (!found) return;
    found_.push_back({"batch", std::to_string(found->largest.batch), "", found->largest.arena_bytes,
                      found->largest.steps, found->largest.seconds_per_sample()});
  }

  void take_shorter_samples(int64_t tokens) {
    StepRequest request = request_;
    for (int64_t half = tokens / 2; half > 0; half /= 2) {
      request.step.sizes["sequence"] = half;
      if (plans(request, {"seq", std::to_string(half), "shorter samples"})) return;
    }
  }

  StepRequest request_;
  plan::PlanOptions search_;
  plan::Deadline deadline_;  // of the way that is tried
  std::vector<Alternative> found_;
};

}  // namespace

plan::StepOfBatch step_of_batch(const StepRequest& request) {
  const bool quantized = parse_allowed(request.allow).eight_bit_state;
  return [request, quantized](int64_t batch) {
    models::StepOptions asked = request.step;
    asked.sizes["batch"] = batch;
    asked.train.eight_bit_state = quantized;
    return kernels::prepare(models::build_step(request.model, asked),
                            {.device = request.device, .threads = request.threads});
  };
}

int64_t most_samples(const models::ModelInfo& model) {
  constexpr int64_t kMostSamples = int64_t{1} << 20;
  if (const auto fixed = model.fixed.find("batch"); fixed != model.fixed.end()) return fixed->second;
  const auto limit = model.most.find("batch");
  return limit == model.most.end() ? kMostSamples : limit->second;
}

std::vector<Alternative> find_alternatives(const StepRequest& request, const plan::PlanOptions& search,
                                           const std::string& why_whole) {
  return AlternativeSearch(request, search).run(why_whole);
}

}  // namespace plimsoll::train

#include "plimsoll/train/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "plimsoll/base/error.h"

namespace plimsoll::train {
namespace {

// A request with some of its settings changed.
struct Attempt {
  StepRequest request;
  plan::PlanOptions search;
  StateForm state = StateForm::any;
  Alternative way = {};

  void note(std::string option, std::string value, const std::string& text) {
    way.settings.push_back({std::move(option), std::move(value)});
    if (!text.empty()) way.note += (way.note.empty() ? "" : ", ") + text;
  }
};

using Change = std::function<void(Attempt&)>;

Change allow(std::string_view measure, const char* note) {
  return [measure, note](Attempt& attempt) {
    attempt.request.allow.emplace_back(measure);
    if (measure == kEightBitState) attempt.state = StateForm::quantized;  // f32 was tried
    attempt.note("allow", std::string(measure), note);
  };
}

void take_recompute(Attempt& attempt) {
  attempt.search.recompute = true;
  attempt.note("recompute", "true", "exact");
}

void take_bf16(Attempt& attempt) {
  attempt.request.step.precision = DType::bf16;
  attempt.note("precision", "bf16", "changes the rounding");
}

Change take_batch(int64_t samples) {
  return [samples](Attempt& attempt) {
    attempt.request.step.sizes["batch"] = samples;
    attempt.note("batch", std::to_string(samples), "");
  };
}

// To a disk as one commonly is: there is none yet to measure.
void take_spill(Attempt& attempt) {
  attempt.search.spill = {.bytes_per_s = 5e8, .processor_s_per_byte = 3e-10};
  attempt.note("spill-dir", "DIR", "with a disk of 500 MB/s");
}

class AlternativeSearch {
 public:
  AlternativeSearch(const StepRequest& request, const plan::PlanOptions& search) : start_{request, search} {
    constexpr int kEffort = 10;  // of a search, for each of some twenty settings
    start_.search.work_limit /= kEffort;
    start_.search.find_smallest = false;
    start_.search.progress = nullptr;
    start_.request.measure = false;
    const program::Bindings sizes = models::bindings(request.model, request.step.sizes);
    batch_ = open_size(sizes, "batch");
    tokens_ = open_size(sizes, "sequence");
  }

  std::vector<Alternative> run(const std::string& why_whole) {
    std::vector<Change> supported;
    std::vector<std::function<void()>> ways;
    for (const Change& change : possible_changes(why_whole)) {
      ways.emplace_back([this, change, &supported] {
        if (try_alone(change)) supported.push_back(change);
      });
    }
    if (batch_ > 1) ways.emplace_back([&] { take_smaller_batch(start_); });
    if (tokens_ > 1) ways.emplace_back([&] { take_shorter_samples(); });
    ways.emplace_back([&] { try_together(supported); });
    const plan::Deadline& deadline = start_.search.deadline;
    for (size_t i = 0; i < ways.size() && !deadline.has_passed(); ++i) {
      deadline_ = deadline.share(1.0 / static_cast<double>(ways.size() - i));
      ways[i]();
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Alternative& a, const Alternative& b) {
      return a.seconds_a_sample < b.seconds_a_sample;
    });
    return std::move(found_);
  }

 private:
  // Zero where the model has no such size, or only one value of it.
  int64_t open_size(const program::Bindings& sizes, const char* symbol) const {
    const auto size = sizes.find(symbol);
    return size == sizes.end() || start_.request.model.fixed.contains(symbol) ? 0 : size->second;
  }

  // In the order in which they are combined: those that leave the numbers as they are, or nearly, first.
  std::vector<Change> possible_changes(const std::string& why_whole) const {
    const StepRequest& request = start_.request;
    const Allowed allowed = parse_allowed(request.allow);
    const bool has_state = request.step.training && request.step.train.optimizer != program::Optimizer::sgd;
    std::vector<Change> changes;
    if (!start_.search.recompute) changes.emplace_back(take_recompute);
    if (request.micro_batches && !allowed.batch_norm_micro_batches && why_whole.find("batch_norm") != why_whole.npos) {
      changes.push_back(allow(kBatchNormMicroBatches, "changes the statistics"));
    }
    if (has_state && !allowed.eight_bit_state) changes.push_back(allow(kEightBitState, "rounds the optimizer's state"));
    if (request.step.precision == DType::f32) changes.emplace_back(take_bf16);
    if (start_.search.spill.bytes_per_s == 0) changes.emplace_back(take_spill);
    return changes;
  }

  void show(const std::string& how) const {
    if (start_.request.listener.on_alternative) start_.request.listener.on_alternative(how);
  }

  plan::PlanOptions limited(plan::PlanOptions search) const {
    search.deadline = deadline_;
    return search;
  }

  Attempt with(const std::vector<Change>& changes) const {
    Attempt attempt = start_;
    for (const Change& change : changes) change(attempt);
    return attempt;
  }

  bool plans(Attempt attempt) {
    if (deadline_.has_passed()) return false;
    show(attempt.way.how());
    const ModelForms forms(attempt.request);
    const auto made = plan::plan_step(forms.forms(attempt.state), limited(attempt.search));
    const auto* step = std::get_if<plan::StepPlan>(&made);
    if (step == nullptr) return false;
    attempt.way.arena_bytes = step->arena_bytes;
    attempt.way.steps = step->steps();
    attempt.way.seconds_a_sample = step->predicted_s / static_cast<double>(forms.batch());
    found_.push_back(std::move(attempt.way));
    return true;
  }

  // Whether there are kernels for it, whether it fits or not: in bf16 some ops have none, and a model that was built in
  // f32 stays so.
  bool try_alone(const Change& change) {
    try {
      plans(with({change}));
      return true;
    } catch (const UnsupportedError&) {
      return false;
    }
  }

  // One change after the other, until they fit, at last with as many samples as do; then without those that it does not
  // take.
  void try_together(const std::vector<Change>& changes) {
    if (!found_.empty()) return;
    std::vector<Change> taken;
    for (const Change& change : changes) {
      taken.push_back(change);
      if (taken.size() > 1 && plans(with(taken))) break;
    }
    if (found_.empty() && batch_ > 1 && !taken.empty()) {
      take_smaller_batch(with(taken));
      if (!found_.empty()) taken.push_back(take_batch(std::stoll(found_[0].settings.back().value)));
    }
    if (found_.empty()) return;
    for (size_t i = taken.size(); i-- > 0;) {
      std::vector<Change> fewer = taken;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (plans(with(fewer))) taken = std::move(fewer);
    }
    found_.erase(found_.begin(), found_.end() - 1);
  }

  void take_smaller_batch(Attempt attempt) {
    attempt.note("batch", "", "");
    show(attempt.way.how());
    const KnownCosts known;
    const auto costs = [&](const kernels::Lowered& lowered) { return known.of(lowered).seconds; };
    const auto found =
        plan::find_largest_batch(step_of_batch(attempt.request), costs, limited(attempt.search), batch_ - 1);
    if (!found) return;
    Alternative& way = attempt.way;
    way.settings.back().value = std::to_string(found->largest.batch);
    way.arena_bytes = found->largest.arena_bytes;
    way.steps = found->largest.steps;
    way.seconds_a_sample = found->largest.seconds_per_sample();
    found_.push_back(std::move(way));
  }

  void take_shorter_samples() {
    for (int64_t half = tokens_ / 2; half > 0; half /= 2) {
      Attempt attempt = start_;
      attempt.request.step.sizes["sequence"] = half;
      attempt.note("seq", std::to_string(half), "shorter samples");
      if (plans(std::move(attempt))) return;
    }
  }

  Attempt start_;
  int64_t batch_ = 0;
  int64_t tokens_ = 0;
  plan::Deadline deadline_;  // of the way that is tried
  std::vector<Alternative> found_;
};

}  // namespace

std::string Alternative::how() const {
  std::string text;
  for (const Setting& setting : settings) {
    if (!text.empty()) text += ' ';
    text += setting.option == "recompute" ? "without --no-recompute" : "--" + setting.option;
    if (setting.option != "recompute" && !setting.value.empty()) text += " " + setting.value;
  }
  return text;
}

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

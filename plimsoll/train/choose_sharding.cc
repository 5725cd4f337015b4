#include "plimsoll/train/choose_sharding.h"

#include <limits>
#include <optional>

#include "plimsoll/base/error.h"

namespace plimsoll::train {
namespace {

using program::Sharding;

constexpr double kFasterBy = 0.99;  // of the time: less is no reason to shard more

struct Choice {
  Sharding sharding = Sharding::none;
  bool fits = false;
  double step_s = std::numeric_limits<double>::infinity();
  int64_t bytes = INT64_MAX;  // that it takes, or at least would
  bool is_plain = false;      // nothing is computed again, and the batch taken whole
};

// Whether `other`, which shards more, is to be taken instead.
bool is_better(const Choice& other, const Choice& than) {
  if (other.fits != than.fits) return other.fits;
  return other.fits ? other.step_s < kFasterBy * than.step_s : other.bytes < than.bytes;
}

Choice planned(const StepRequest& of_rank, Sharding sharding, const plan::PlanOptions& options) {
  StepRequest request = of_rank;
  request.step.train.sharding = sharding;
  const ModelForms model(std::move(request));
  const auto made = plan::plan_step(model.forms(), options);
  if (const auto* refusal = std::get_if<plan::Refusal>(&made)) {
    return {sharding, false, std::numeric_limits<double>::infinity(), refusal->smallest_bytes, false};
  }
  const auto& step = std::get<plan::StepPlan>(made);
  return {sharding, true, step.predicted_s, step.arena_bytes, step.measures().empty()};
}

// The best of what `look` says of each, where it says something.
template <class Look>
Sharding best_of(const std::vector<Sharding>& shardings, const Look& look) {
  std::optional<Choice> best;
  for (const Sharding sharding : shardings) {
    // Gathering parameters takes no less time than having them.
    if (best && best->is_plain && sharding > Sharding::optimizer) break;
    const std::optional<Choice> choice = look(sharding);
    if (choice && (!best || is_better(*choice, *best))) best = choice;
  }
  return best ? best->sharding : Sharding::none;
}

template <class F>
std::optional<Choice> where_supported(const F& f) {
  try {
    return f();
  } catch (const UnsupportedError&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Sharding> possible_shardings(bool whole_parameters) {
  std::vector<Sharding> shardings = {Sharding::none, Sharding::optimizer, Sharding::gradients};
  if (!whole_parameters) shardings.push_back(Sharding::parameters);
  return shardings;
}

Sharding choose_sharding(const StepRequest& of_rank, const plan::PlanOptions& options,
                         const std::vector<Sharding>& shardings) {
  return best_of(shardings, [&](Sharding sharding) {
    return where_supported([&] { return std::optional(planned(of_rank, sharding, options)); });
  });
}

Sharding estimate_sharding(const StepRequest& whole, int ranks, const Link& link, int64_t budget_bytes) {
  return best_of(possible_shardings(false), [&](Sharding sharding) {
    return where_supported([&] {
      const RankEstimate estimate = estimate_ranks(whole, ranks, sharding, link);
      const bool fits = estimate.arena_bytes <= budget_bytes;
      return std::optional(Choice{sharding, fits, estimate.step_s(), estimate.arena_bytes, fits});
    });
  });
}

}  // namespace plimsoll::train

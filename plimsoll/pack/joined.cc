#include "plimsoll/pack/joined.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plimsoll::pack {
namespace {

constexpr int64_t kSteps = 200;          // that vary the joins before a search
constexpr int64_t kPatience = 100;       // rounds
constexpr double kBuffersOfAStep = 100;  // a step takes as long as a node of a search over that many
constexpr double kNearlyFull = 0.9;      // the mean load, of the aim: holes may then be known by their sides too

Effort without_joins(Effort effort) {
  effort.threads = 1;
  effort.runs = {};
  effort.inference.joins = false;
  effort.inference.local_proof = false;
  return effort;
}

bool nearly_full(const Instance& instance, int64_t aim) {
  const double sum = std::accumulate(instance.loads.begin(), instance.loads.end(), 0.0);
  const double full = static_cast<double>(aim) * instance.sections();
  return kNearlyFull * full <= sum && sum < full;
}

}  // namespace

JoinedSearch::JoinedSearch(const Instance& instance, int64_t aim, const Effort& effort)
    : instance_(instance), effort_(without_joins(effort)) {
  attempts_.push_back(begin(0, false));
  if (nearly_full(instance, aim)) {
    attempts_.push_back(begin(aim, false));
    attempts_.push_back(begin(aim + aim / 25, true));
  }
  std::erase_if(attempts_, [&](const Attempt& a) { return 3 * a.joins.left() > 2 * instance.count(); });
}

JoinedSearch::Attempt JoinedSearch::begin(int64_t capacity, bool loosely) const {
  return {capacity, loosely, Joins(instance_, capacity, loosely, effort_.seed + static_cast<uint64_t>(rounds_)),
          kPatience};
}

// The less is left, the more of the time goes to it; less where a search over all buffers is fast.
bool JoinedSearch::due(int64_t nodes_of_others) const {
  constexpr int64_t kNodesAhead = 100;
  constexpr double kMany = 500;  // buffers
  if (attempts_.empty()) return false;
  int32_t left = instance_.count();
  for (const Attempt& attempt : attempts_) left = std::min(left, attempt.joins.left());
  const double share = std::min(1.0, instance_.count() / kMany) * instance_.count() / (4.0 * left);
  return cost_ <= share * static_cast<double>(nodes_of_others + kNodesAhead);
}

void JoinedSearch::vary(Attempt& attempt, int64_t most_steps) {
  if (attempt.patience-- == 0) attempt = begin(attempt.capacity, attempt.loosely);
  const int32_t before = attempt.joins.left();
  const int64_t steps = std::min(kSteps, most_steps);
  for (int64_t step = 0; step < steps && attempt.joins.left() > 1; ++step) attempt.joins.vary();
  if (attempt.joins.left() < before) attempt.patience = kPatience;
  nodes_ += steps;
  cost_ += kBuffersOfAStep * static_cast<double>(steps) / instance_.count();
}

Placement JoinedSearch::next(int64_t capacity, int64_t limit, int64_t nodes) {
  Attempt& attempt = attempts_[rounds_ % attempts_.size()];
  if (rounds_ > 0) vary(attempt, nodes);
  const Instance rest = attempt.joins.instance();
  Bracket bracket;
  bracket.best = pack_greedily(rest, capacity, pack_at_once(rest), effort_.limits.deadline);
  Effort effort = effort_;
  effort.seed += static_cast<uint64_t>(rounds_++);
  effort.limits.nodes = std::min<int64_t>(nodes, 100 + 3 * rest.count());
  if (bracket.best.peak > capacity) improve(rest, bracket, capacity, true, effort);
  nodes_ += 1 + bracket.nodes;
  cost_ += static_cast<double>(bracket.nodes * rest.count()) / instance_.count();
  return bracket.best.peak < limit ? attempt.joins.expanded(bracket.best) : Placement{};
}

}  // namespace plimsoll::pack

#include "plimsoll/pack/joined.h"

#include <algorithm>

namespace plimsoll::pack {
namespace {

constexpr int64_t kSteps = 200;          // that vary the joins, before each search but the first
constexpr int64_t kPatience = 100;       // rounds in which nothing more is joined, until all is joined anew
constexpr double kBuffersOfAStep = 100;  // a step takes as long as a node of a search over that many

Effort without_joins(Effort effort) {
  effort.threads = 1;
  effort.runs = {};
  effort.inference.joins = false;
  effort.inference.local_proof = false;
  return effort;
}

}  // namespace

JoinedSearch::JoinedSearch(const Instance& instance, const Effort& effort)
    : instance_(instance), effort_(without_joins(effort)), joins_(std::in_place, instance, effort.seed) {}

// A third is joined, or it is not worth the time; and the less is left, the more of the time goes to it.
bool JoinedSearch::due(int64_t nodes_of_others) const {
  constexpr int64_t kNodesAhead = 100;
  const double others = static_cast<double>(nodes_of_others + kNodesAhead) / 4;
  return 3 * joins_->left() <= 2 * instance_.count() && cost_ * joins_->left() <= others * instance_.count();
}

void JoinedSearch::vary(int64_t nodes) {
  const int32_t before = joins_->left();
  if (rounds_ - last_success_ > kPatience) {
    joins_.emplace(instance_, effort_.seed + static_cast<uint64_t>(rounds_));
    last_success_ = rounds_;
  }
  const int64_t steps = std::min(kSteps, nodes);
  for (int64_t step = 0; step < steps && joins_->left() > 1; ++step) joins_->vary();
  if (joins_->left() < before) last_success_ = rounds_;
  nodes_ += steps;
  cost_ += kBuffersOfAStep * static_cast<double>(steps) / instance_.count();
}

Placement JoinedSearch::next(int64_t capacity, int64_t limit, int64_t nodes) {
  if (rounds_ > 0) vary(nodes);
  ++rounds_;
  const Instance rest = joins_->instance();
  Bracket bracket;
  bracket.best = pack_greedily(rest, capacity, pack_at_once(rest), effort_.limits.deadline);
  Effort effort = effort_;
  effort.seed += static_cast<uint64_t>(rounds_) - 1;
  effort.limits.nodes = std::min<int64_t>(nodes, 100 + 3 * rest.count());
  if (bracket.best.peak > capacity) improve(rest, bracket, capacity, true, effort);
  nodes_ += 1 + bracket.nodes;
  cost_ += static_cast<double>(bracket.nodes * rest.count()) / instance_.count();
  return bracket.best.peak < limit ? joins_->expanded(bracket.best) : Placement{};
}

}  // namespace plimsoll::pack

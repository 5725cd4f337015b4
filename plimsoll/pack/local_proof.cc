#include "plimsoll/pack/local_proof.h"

#include <algorithm>

#include "plimsoll/pack/portfolio.h"

namespace plimsoll::pack {
namespace {

constexpr int32_t kNarrowest = 4;
constexpr double kHeavy = 0.95;  // of the largest load: lighter windows hardly ever fail
constexpr int64_t kFirstNodes = 500;
constexpr int64_t kWay = 3;  // of the portfolio: the fewest choices, which proofs need

bool heavy(const Instance& instance, Span window) {
  const auto most = [&](int32_t first, int32_t end) {
    return *std::max_element(instance.loads.begin() + first, instance.loads.begin() + end);
  };
  return static_cast<double>(most(window.first, window.end)) >=
         kHeavy * static_cast<double>(most(0, instance.sections()));
}

}  // namespace

// Each half covered by its neighbour. A window of more than half of the sections would be no easier than all of them.
LocalProof::LocalProof(const Instance& instance, const Inference& inference)
    : instance_(instance), inference_(inference), nodes_for_each_(kFirstNodes) {
  for (int32_t width = kNarrowest; 2 * width <= instance.sections(); width *= 2) {
    for (int32_t first = 0; first + width <= instance.sections(); first += width / 2) {
      const Span window{first, first + width};
      if (heavy(instance, window)) windows_.push_back(window);
    }
  }
}

std::optional<Span> LocalProof::next(int64_t capacity, Limits limits) {
  const Span window = windows_[at_];
  const Instance part = cut_out(instance_, window);
  const Run run = Portfolio(part, 1).run(kWay, false);
  limits.nodes = std::min(limits.nodes, nodes_for_each_);
  Search search(part, inference_);
  const Verdict verdict = search.run(capacity, run.strategy, run.ranks, limits);
  nodes_ += search.nodes();
  if (verdict == Verdict::infeasible) return window;
  if (verdict == Verdict::found) {
    windows_.erase(windows_.begin() + static_cast<int64_t>(at_));
  } else {
    ++at_;
  }
  if (at_ >= windows_.size()) {
    at_ = 0;
    nodes_for_each_ *= 2;
  }
  return std::nullopt;
}

}  // namespace plimsoll::pack

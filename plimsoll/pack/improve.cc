#include "plimsoll/pack/improve.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "plimsoll/pack/portfolio.h"

namespace plimsoll::pack {
namespace {

// Runs of one round go to as many threads. Whatever the timing, the answers taken are those up to the first success in
// order of the runs: later ones are cancelled, and their answers dropped.
class Team {
 public:
  Team(const Instance& instance, const Effort& effort) : effort_(effort), cancelled_(effort.threads) {
    for (int t = 0; t < effort.threads; ++t) {
      searches_.push_back(std::make_unique<Search>(instance, effort.inference));
    }
  }

  int size() const { return static_cast<int>(searches_.size()); }
  const Search& search(int member) const { return *searches_[member]; }

  int64_t nodes() const {
    int64_t sum = 0;
    for (const auto& search : searches_) sum += search->nodes();
    return sum;
  }

  // Member t does `runs[t]`.
  std::vector<Verdict> round(std::span<const Run> runs, int64_t capacity) {
    std::vector<Verdict> verdicts(size());
    for (auto& flag : cancelled_) flag.store(false, std::memory_order_relaxed);
    std::vector<std::thread> threads;
    for (int t = 1; t < size(); ++t) {
      threads.emplace_back([&, t] { verdicts[t] = work(t, runs[t], capacity); });
    }
    verdicts[0] = work(0, runs[0], capacity);
    for (std::thread& thread : threads) thread.join();
    return verdicts;
  }

 private:
  Verdict work(int member, const Run& run, int64_t capacity) {
    Limits limits = effort_.limits;
    limits.nodes = std::min(run.nodes, limits.nodes);
    limits.cancelled = &cancelled_[member];
    const Verdict verdict = searches_[member]->run(capacity, run.strategy, run.ranks, limits);
    if (verdict == Verdict::found) {
      for (int later = member + 1; later < size(); ++later) cancelled_[later].store(true, std::memory_order_relaxed);
    }
    return verdict;
  }

  const Effort& effort_;
  std::vector<std::unique_ptr<Search>> searches_;
  std::vector<std::atomic<bool>> cancelled_;
};

class Improver {
 public:
  Improver(const Instance& instance, Bracket& bracket, int64_t enough, bool only_enough, const Effort& effort)
      : instance_(instance),
        bracket_(bracket),
        enough_(enough),
        only_enough_(only_enough),
        effort_(effort),
        portfolio_(instance, effort.seed, effort.hint),
        team_(instance, effort) {}

  void improve() {
    for (int64_t k = 0; !done(); k += team_.size()) round(k);
    bracket_.nodes += team_.nodes();
  }

 private:
  bool done() const {
    return bracket_.closed() || bracket_.best.peak <= enough_ || (only_enough_ && bracket_.lower > enough_) ||
           team_.nodes() >= effort_.limits.nodes || std::chrono::steady_clock::now() >= effort_.limits.deadline;
  }

  void round(int64_t k) {
    const int64_t capacity = capacity_for(k);
    std::vector<Run> runs;
    for (int t = 0; t < team_.size(); ++t) runs.push_back(portfolio_.run(k + t));
    const std::vector<Verdict> verdicts = team_.round(runs, capacity);
    const auto found = std::find(verdicts.begin(), verdicts.end(), Verdict::found);
    const bool infeasible = std::find(verdicts.begin(), found, Verdict::infeasible) != found;
    if (infeasible) bracket_.lower = std::max(bracket_.lower, capacity + 1);
    if (found != verdicts.end()) accept(team_.search(static_cast<int>(found - verdicts.begin())).offsets());
    adapt(found != verdicts.end());
  }

  // Strides towards the bound that double with each success and halve when several runs have failed.
  void adapt(bool success) {
    failures_ = success ? 0 : failures_ + team_.size();
    if (success) {
      stride_ *= 2;
    } else if (failures_ >= kRunsPerStride) {
      failures_ = 0;
      stride_ = std::max<int64_t>(stride_ / 2, 1);
    }
  }

  void accept(const std::vector<int64_t>& offsets) {
    Placement placement{offsets, 0};
    for (int32_t i = 0; i < instance_.count(); ++i) {
      placement.peak = std::max(placement.peak, offsets[i] + instance_.sizes[i]);
    }
    if (placement.peak < bracket_.best.peak) bracket_.best = std::move(placement);
  }

  // The bound itself is the first aim, and then every other.
  int64_t capacity_for(int64_t k) {
    if (only_enough_) return enough_;
    const int64_t aim = std::max(bracket_.lower, enough_);
    if (k < kRunsAtBound || k / kRunsPerStride % 2 == 0) return aim;
    const int64_t gap = bracket_.best.peak - aim;
    if (stride_ == 0) stride_ = (gap + 1) / 2;
    stride_ = std::min(stride_, gap);
    return bracket_.best.peak - stride_;
  }

  static constexpr int64_t kRunsAtBound = 20;
  static constexpr int64_t kRunsPerStride = 5;

  const Instance& instance_;
  Bracket& bracket_;
  int64_t enough_;
  bool only_enough_;
  const Effort& effort_;
  Portfolio portfolio_;
  Team team_;
  int64_t stride_ = 0;
  int64_t failures_ = 0;
};

}  // namespace

void improve(const Instance& instance, Bracket& bracket, int64_t enough, bool only_enough, const Effort& effort) {
  Improver(instance, bracket, enough, only_enough, effort).improve();
}

}  // namespace plimsoll::pack

#include "plimsoll/pack/improve.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "plimsoll/pack/joined.h"
#include "plimsoll/pack/local_proof.h"

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
  int64_t nodes() const { return nodes_; }  // of the answers taken

  struct Answer {
    Verdict verdict = Verdict::stopped;
    int64_t nodes = 0;
  };

  // Member t does `runs[t]`. The answers up to the first success; that one is the last.
  std::vector<Answer> round(std::span<const Run> runs, int64_t capacity) {
    std::vector<Answer> answers(size());
    for (auto& flag : cancelled_) flag.store(false, std::memory_order_relaxed);
    std::vector<std::thread> threads;
    for (int t = 1; t < size(); ++t) {
      threads.emplace_back([&, t] { answers[t] = work(t, runs[t], capacity); });
    }
    answers[0] = work(0, runs[0], capacity);
    for (std::thread& thread : threads) thread.join();
    return take(answers);
  }

 private:
  std::vector<Answer> take(std::span<const Answer> answers) {
    std::vector<Answer> taken;
    for (const Answer& answer : answers) {
      nodes_ += answer.nodes;
      taken.push_back(answer);
      if (answer.verdict == Verdict::found) break;
    }
    return taken;
  }

  Answer work(int member, const Run& run, int64_t capacity) {
    Limits limits = effort_.limits;
    limits.nodes = std::min(run.nodes, limits.nodes);
    limits.cancelled = &cancelled_[member];
    Search& search = *searches_[member];
    const int64_t nodes_before = search.nodes();
    const Verdict verdict = search.run(capacity, run.strategy, run.ranks, limits);
    if (verdict == Verdict::found) {
      for (int later = member + 1; later < size(); ++later) cancelled_[later].store(true, std::memory_order_relaxed);
    }
    return {verdict, search.nodes() - nodes_before};
  }

  const Effort& effort_;
  std::vector<std::unique_ptr<Search>> searches_;
  std::vector<std::atomic<bool>> cancelled_;
  int64_t nodes_ = 0;
};

// The fraction of k golden ratios. It covers [0, 1) evenly, also for every tenth k: each way gets capacities of all
// kinds.
double evenly(int64_t k) { return static_cast<double>(static_cast<uint64_t>(k) * 0x9E3779B97F4A7C15u >> 11) * 0x1p-53; }

// Runs with one purpose. Each campaign goes through all ways of the portfolio on its own, and has its own searches, so
// that nogoods of one capacity outlive the runs at others.
struct Campaign {
  Campaign(const Instance& instance, const Effort& effort) : team(instance, effort) {}

  Team team;
  int64_t runs = 0;
  int64_t rounds = 0;
};

class Improver {
 public:
  Improver(const Instance& instance, Bracket& bracket, int64_t enough, bool only_enough, const Effort& effort)
      : instance_(instance),
        bracket_(bracket),
        enough_(enough),
        only_enough_(only_enough),
        effort_(effort),
        portfolio_(instance, effort.seed),
        at_aim_(instance, effort),
        joinable_(effort.inference.joins && instance.alignments.empty() && instance.fixed.empty() &&
                  instance.span_begin.empty()) {}

  void improve() {
    while (!done()) {
      if (joins_are_due()) {
        pack_joined();
      } else if (local_proof_is_due()) {
        prove_locally();
      } else if (only_enough_ || aim_is_due()) {
        round(at_aim_, aim(), true);
      } else {
        round(*above_, capacity_above(above_->rounds + 1), false);
      }
    }
    bracket_.nodes += nodes();
  }

 private:
  bool done() const {
    return bracket_.closed() || bracket_.best.peak <= enough_ || (only_enough_ && bracket_.lower > enough_) ||
           nodes() >= effort_.limits.nodes || std::chrono::steady_clock::now() >= effort_.limits.deadline;
  }

  int64_t nodes() const {
    return nodes_of_runs() + (local_proof_ ? local_proof_->nodes() : 0) + (joined_ ? joined_->nodes() : 0);
  }

  int64_t nodes_of_runs() const { return at_aim_.team.nodes() + (above_ ? above_->team.nodes() : 0); }

  bool joins_are_due() {
    if (!joinable_) return false;
    if (!joined_) joined_.emplace(instance_, aim(), effort_);
    return joined_->due(nodes_of_runs());
  }

  // At the aim and above it in turn.
  void pack_joined() {
    const bool above = !only_enough_ && joined_rounds_++ % 2 == 1;
    const int64_t capacity = above ? capacity_above(joined_rounds_) : aim();
    Placement placement = joined_->next(capacity, bracket_.best.peak, effort_.limits.nodes - nodes());
    if (placement.offsets.empty()) return;
    bracket_.best = std::move(placement);
    bracket_.run.reset();
  }

  // When the aim has resisted for a while it may be out of reach; a quarter of its nodes go to finding out where.
  bool local_proof_is_due() {
    if (!effort_.inference.local_proof || at_aim_.runs < kRunsAtAim) return false;
    if (!local_proof_) local_proof_.emplace(instance_, effort_.inference);
    return !local_proof_->exhausted() && 4 * local_proof_->nodes() <= at_aim_.team.nodes();
  }

  void prove_locally() {
    const std::optional<Span> window = local_proof_->next(aim(), effort_.limits);
    if (window) raise_lower(aim() + 1, *window);
  }

  void raise_lower(int64_t lower, Span refuted) {
    if (lower <= bracket_.lower) return;
    bracket_.lower = lower;
    bracket_.refuted = refuted;
  }

  // The aim comes first; later it takes half of the nodes.
  bool aim_is_due() {
    if (at_aim_.runs < kRunsAtAim) return true;
    if (!above_) above_.emplace(instance_, effort_);
    return at_aim_.team.nodes() <= above_->team.nodes();
  }

  void round(Campaign& campaign, int64_t capacity, bool proving) {
    std::vector<Run> runs;
    for (int t = 0; t < campaign.team.size(); ++t) runs.push_back(next_run(campaign, proving));
    ++campaign.rounds;
    const std::vector<Team::Answer> answers = campaign.team.round(runs, capacity);
    for (const Team::Answer& answer : answers) {
      if (answer.verdict == Verdict::infeasible) raise_lower(capacity + 1, {0, instance_.sections()});
    }
    const auto last = static_cast<int>(answers.size()) - 1;
    if (answers[last].verdict != Verdict::found) return;
    runs[last].nodes = answers[last].nodes;
    accept(campaign.team.search(last).offsets(), std::move(runs[last]));
  }

  // What packed similar buffers comes first, for two runs or so; later it gets an eighth of the nodes.
  Run next_run(Campaign& campaign, bool proving) {
    const bool due = &campaign == &at_aim_ && repeated_ < effort_.runs.size() &&
                     8 * repeated_nodes_ <= campaign.team.nodes() + kNodesAhead * instance_.count();
    if (!due) return portfolio_.run(campaign.runs++, proving);
    const Run& run = effort_.runs[repeated_++];
    repeated_nodes_ += run.nodes;
    return run;
  }

  void accept(const std::vector<int64_t>& offsets, Run run) {
    Placement placement{offsets, 0};
    for (int32_t i = 0; i < instance_.count(); ++i) {
      placement.peak = std::max(placement.peak, offsets[i] + instance_.sizes[i]);
    }
    if (placement.peak >= bracket_.best.peak) return;
    bracket_.best = std::move(placement);
    bracket_.run = std::move(run);
  }

  int64_t aim() const { return only_enough_ ? enough_ : std::max(bracket_.lower, enough_); }

  // In the upper half of the gap, each time another: which of them are easy cannot be foreseen.
  int64_t capacity_above(int64_t k) const {
    const auto gap = static_cast<double>(bracket_.best.peak - aim());
    return aim() + static_cast<int64_t>(gap * (1 + evenly(k)) / 2);
  }

  static constexpr int64_t kRunsAtAim = 20;
  static constexpr int64_t kNodesAhead = 12;  // for each buffer

  const Instance& instance_;
  Bracket& bracket_;
  int64_t enough_;
  bool only_enough_;
  const Effort& effort_;
  Portfolio portfolio_;
  Campaign at_aim_;
  size_t repeated_ = 0;         // of the runs that packed something similar
  int64_t repeated_nodes_ = 0;  // that they may have taken
  std::optional<LocalProof> local_proof_;
  bool joinable_;  // nothing has gaps, alignments or a fixed offset
  std::optional<JoinedSearch> joined_;
  int64_t joined_rounds_ = 0;
  std::optional<Campaign> above_;  // made when needed: a search has large tables
};

}  // namespace

void improve(const Instance& instance, Bracket& bracket, int64_t enough, bool only_enough, const Effort& effort) {
  Improver(instance, bracket, enough, only_enough, effort).improve();
}

}  // namespace plimsoll::pack

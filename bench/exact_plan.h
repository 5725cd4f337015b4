// The least time of a small graph within a limit on live bytes, by complete search: every order of recomputing and
// every choice of what to hold is covered. The referee for the planner's search; exponential, so for few nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "plimsoll/plan/step_graph.h"

namespace plimsoll::bench {

class ExactPlan {
 public:
  // At most 64 storages and 255 nodes.
  ExactPlan(const plan::StepGraph& graph, int64_t limit_bytes) : graph_(graph), limit_(limit_bytes) {
    remaining_.assign(graph.nodes.size() + 1, 0);
    for (size_t i = graph.nodes.size(); i-- > 0;) remaining_[i] = remaining_[i + 1] + graph.nodes[i].seconds;
  }

  // Nothing when no plan is within the limit, or more than `most_states` would have to be looked at (`gave_up`).
  std::optional<double> seconds(size_t most_states, bool& gave_up) {
    gave_up = false;
    reach({0, 0}, 0);
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (entry.spent > best_.at(entry.state)) continue;
      if (entry.state.time == static_cast<int32_t>(graph_.nodes.size())) return entry.spent;
      if (best_.size() > most_states) {
        gave_up = true;
        return std::nullopt;
      }
      expand(entry);
    }
    return std::nullopt;
  }

 private:
  struct State {
    int32_t time = 0;    // nodes that ran for the first time
    uint64_t alive = 0;  // storages
    bool operator==(const State&) const = default;
  };
  struct Hash {
    size_t operator()(const State& state) const {
      return (state.alive * 64 + static_cast<uint64_t>(state.time)) * 0x9E3779B97F4A7C15U >> 7;
    }
  };
  struct Entry {
    double least;  // in all, at best
    double spent;
    State state;
    bool operator<(const Entry& other) const { return least > other.least; }
  };

  static uint64_t bit(int32_t storage) { return uint64_t{1} << storage; }
  const plan::GraphStorage& storage(int32_t place) const { return graph_.storages[static_cast<size_t>(place)]; }

  int64_t bytes(uint64_t alive) const {
    int64_t sum = graph_.resident_bytes;
    for (size_t i = 0; i < graph_.storages.size(); ++i) {
      if ((alive >> i & 1) != 0) sum += graph_.storages[i].bytes;
    }
    return sum;
  }

  void reach(const State& state, double spent) {
    const auto [found, is_new] = best_.try_emplace(state, spent);
    if (!is_new && found->second <= spent) return;
    found->second = spent;
    queue_.push({spent + remaining_[static_cast<size_t>(state.time)], spent, state});
  }

  void expand(const Entry& entry) {
    for (size_t i = 0; i < graph_.storages.size(); ++i) {
      const bool is_alive = (entry.state.alive >> i & 1) != 0;
      if (is_alive && !graph_.storages[i].kept) {
        reach({entry.state.time, entry.state.alive & ~bit(static_cast<int32_t>(i))}, entry.spent);
      }
    }
    for (int32_t node = 0; node <= entry.state.time; ++node) run(entry, node);
  }

  void run(const Entry& entry, int32_t place) {
    const plan::GraphNode& node = graph_.nodes[static_cast<size_t>(place)];
    const bool again = place < entry.state.time;
    if (again && (!node.repeatable || node.repeatable_until < entry.state.time)) return;
    uint64_t reads = 0;
    for (const int32_t read : node.reads) reads |= bit(read);
    if ((entry.state.alive & reads) != reads) return;
    write(entry, node, again, false);
    if (again) write(entry, node, again, true);
  }

  void write(const Entry& entry, const plan::GraphNode& node, bool again, bool without_optional) {
    uint64_t alive = entry.state.alive;
    int64_t needed = bytes(alive) + node.scratch_bytes;
    for (const int32_t made : node.makes) {
      if (without_optional && storage(made).optional) continue;
      needed += storage(made).bytes;
      alive |= bit(made);
    }
    const int32_t time = entry.state.time + (again ? 0 : 1);
    const double spent = entry.spent + node.seconds;
    if (needed <= limit_) reach({time, alive}, spent);
    for (const int32_t taken : node.in_place) {
      if (needed - storage(taken).bytes <= limit_ && !storage(taken).kept) reach({time, alive & ~bit(taken)}, spent);
    }
  }

  const plan::StepGraph& graph_;
  int64_t limit_;
  std::vector<double> remaining_;  // by node: time of it and all after it
  std::unordered_map<State, double, Hash> best_;
  std::priority_queue<Entry> queue_;
};

}  // namespace plimsoll::bench

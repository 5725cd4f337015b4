#include "plimsoll/plan/search.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::plan {
namespace {

constexpr int kMostSegments = 64;
size_t at(int32_t place) { return static_cast<size_t>(place); }

bool reads(const GraphNode& node, int32_t storage) {
  return std::find(node.reads.begin(), node.reads.end(), storage) != node.reads.end();
}

}  // namespace

bool Search::time_is_up() {
  if (!out_of_time_ && Clock::now() > deadline_) out_of_time_ = true;
  return out_of_time_;
}

// xorshift64*: the same numbers everywhere.
uint32_t Search::random(uint32_t below) {
  random_state_ ^= random_state_ >> 12;
  random_state_ ^= random_state_ << 25;
  random_state_ ^= random_state_ >> 27;
  return static_cast<uint32_t>((random_state_ * 0x2545F4914F6CDD1DU) >> 33) % below;
}

// Time to make a storage anew at `time`, from what is then held.
double Search::remake_seconds(int32_t storage, int32_t time, const Holds& holds) {
  visited_.resize(graph_.nodes.size(), 0);
  ++round_;
  double seconds = 0;
  stack_.assign(1, graph_.storages[at(storage)].maker);
  visited_[at(stack_[0])] = round_;
  while (!stack_.empty()) {
    const GraphNode& node = graph_.nodes[at(stack_.back())];
    stack_.pop_back();
    seconds += node.seconds;
    for (const int32_t read : node.reads) {
      const int32_t gap = graph_.gap_at(read, time);
      const int32_t maker = graph_.storages[at(read)].maker;
      if (holds[at(gap)] <= graph_.begin_of(gap) || visited_[at(maker)] == round_) continue;
      visited_[at(maker)] = round_;
      stack_.push_back(maker);
    }
  }
  return seconds;
}

// What is alive at the fullest step and not touched by it, the cheapest to give up first.
std::vector<Search::Move> Search::drops_at(const Schedule& schedule, const Holds& holds, double noise) {
  std::vector<Move> moves;
  const ScheduledStep& full = schedule.steps[at(schedule.peak_step)];
  const GraphNode& node = graph_.nodes[at(full.node)];
  for (const Instance& instance : schedule.instances) {
    if (instance.first >= schedule.peak_step || instance.last <= schedule.peak_step) continue;
    const GraphStorage& storage = graph_.storages[at(instance.storage)];
    if (!storage.droppable || reads(node, instance.storage)) continue;
    const int32_t gap = graph_.gap_at(instance.storage, full.time);
    const int32_t since = std::max(instance.time, graph_.begin_of(gap));
    if (holds[at(gap)] > since || since >= full.time) continue;
    const auto next = at(gap - storage.first_gap) + 1;
    const int32_t wanted = next < storage.events.size() ? storage.events[next] : schedule.steps[at(instance.last)].time;
    Move move{gap, since + 1, storage.bytes, remake_seconds(instance.storage, wanted, holds), 0};
    move.price = (move.seconds + 1e-9) / static_cast<double>(move.bytes);
    if (noise > 0) move.price *= 1 + noise * random(1000) / 1000.0;
    moves.push_back(move);
  }
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.price < b.price; });
  return moves;
}

// Gives up the cheapest until a part of the excess is gone; those that cannot be made again in time stay.
bool Search::drop_some(Holds& holds, std::vector<Move>& moves, int64_t over_bytes) {
  int64_t dropped = 0;
  bool any = false;
  for (const Move& move : moves) {
    const int32_t before = holds[at(move.gap)];
    holds[at(move.gap)] = move.from;
    if (!scheduler_.run(holds).valid) {
      holds[at(move.gap)] = before;
      continue;
    }
    any = true;
    dropped += move.bytes;
    if (dropped >= over_bytes / 4) break;
  }
  return any;
}

// Gives up more until no step is above the limit.
bool Search::repair(Holds& holds, int64_t limit_bytes, double noise) {
  for (int32_t i = 0; i < 4 * graph_.gaps && !time_is_up(); ++i) {
    const Schedule& schedule = scheduler_.run(holds);
    if (!schedule.valid) return false;
    if (schedule.peak_bytes <= limit_bytes) return true;
    const int64_t over = schedule.peak_bytes - limit_bytes;
    std::vector<Move> moves = drops_at(schedule, holds, noise);
    if (moves.empty() || !drop_some(holds, moves, over)) return false;
  }
  return false;
}

// Gaps in which something was made again, the most time for its bytes first.
std::vector<Search::Move> Search::keeps(const Schedule& schedule, const Holds& holds) const {
  std::vector<Move> moves;
  for (const Instance& instance : schedule.instances) {
    const ScheduledStep& step = schedule.steps[at(instance.first)];
    if (!step.again) continue;
    const int32_t gap = graph_.gap_at(instance.storage, instance.time);
    if (holds[at(gap)] == 0) continue;
    const int64_t bytes = graph_.storages[at(instance.storage)].bytes;
    const double seconds = graph_.nodes[at(step.node)].seconds;
    moves.push_back({gap, 0, bytes, seconds, -seconds / static_cast<double>(bytes)});
  }
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.price < b.price; });
  return moves;
}

// Holds what there is room for.
void Search::relax(Found& found, int64_t limit_bytes, size_t tries) {
  for (bool improved = true; improved && !time_is_up();) {
    improved = false;
    std::vector<Move> moves = keeps(scheduler_.run(found.holds), found.holds);
    if (moves.size() > tries) moves.resize(tries);
    for (const Move& move : moves) {
      const int32_t before = found.holds[at(move.gap)];
      found.holds[at(move.gap)] = move.from;
      const Schedule& schedule = scheduler_.run(found.holds);
      if (schedule.valid && schedule.peak_bytes <= limit_bytes && schedule.seconds < found.seconds) {
        found.seconds = schedule.seconds;
        found.peak_bytes = schedule.peak_bytes;
        improved = true;
      } else {
        found.holds[at(move.gap)] = before;
      }
    }
  }
}

std::optional<Found> Search::fitted(Holds holds, int64_t limit_bytes, double noise) {
  if (!repair(holds, limit_bytes, noise)) return std::nullopt;
  const Schedule& schedule = scheduler_.run(holds);
  return Found{std::move(holds), schedule.seconds, schedule.peak_bytes};
}

std::optional<Found> Search::find_any(int64_t limit_bytes) {
  if (std::optional<Found> found = fitted(hold_all(graph_), limit_bytes, 0)) return found;
  for (const bool anew : {false, true}) {
    for (int segments = 1; segments <= kMostSegments; segments += 1 + segments / 3) {
      if (std::optional<Found> found = fitted(checkpoints(graph_, segments, anew), limit_bytes, 0)) return found;
    }
  }
  return std::nullopt;
}

std::optional<Found> Search::construct(int64_t limit_bytes) {
  std::optional<Found> best;
  const auto consider = [&](const Holds& start) {
    std::optional<Found> found = fitted(start, limit_bytes, 0);
    if (!found) return;
    relax(*found, limit_bytes, SIZE_MAX);
    if (!best || found->seconds < best->seconds) best = std::move(found);
  };
  consider(hold_all(graph_));
  for (int segments = 2; segments <= kMostSegments; segments += 1 + segments / 3) {
    consider(checkpoints(graph_, segments));
  }
  return best;
}

// Takes back what was decided in a stretch of the program.
Holds Search::ruined(const Holds& holds) {
  Holds result = holds;
  const Holds all = hold_all(graph_);
  const auto nodes = static_cast<uint32_t>(graph_.nodes.size());
  const uint32_t width = 1 + random(std::max<uint32_t>(2, std::min<uint32_t>(nodes, 8 + nodes / 8)));
  const uint32_t first = random(nodes);
  for (uint32_t i = first; i < std::min(nodes, first + width); ++i) {
    for (const int32_t made : graph_.nodes[i].makes) {
      const GraphStorage& storage = graph_.storages[at(made)];
      for (size_t gap = at(storage.first_gap); gap < at(storage.first_gap) + storage.events.size(); ++gap) {
        result[gap] = all[gap];
      }
    }
  }
  return result;
}

Found Search::improve(Found found, int64_t limit_bytes, int64_t work) {
  const int64_t end = scheduler_.work() + work;
  while (scheduler_.work() < end && !time_is_up()) {
    std::optional<Found> other = fitted(ruined(found.holds), limit_bytes, 0.5 * random(3));
    if (!other || other->seconds > found.seconds * 1.02) continue;
    relax(*other, limit_bytes, 24);
    if (other->seconds < found.seconds) found = std::move(*other);
  }
  relax(found, limit_bytes, SIZE_MAX);
  return found;
}

}  // namespace plimsoll::plan

#include "plimsoll/plan/search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::plan {
namespace {

constexpr int kMostSegments = 64;
constexpr size_t kAllMoves = 4000;          // that one pass over a schedule tries at most
constexpr int kRounds = 4;                  // of wandering and rebuilding
constexpr double kStartTemperature = 0.03;  // at first, as a part of the time of the program
constexpr double kPriceOfExcess = 3;        // of bytes above the limit, as a part of it, in times of the program
constexpr size_t kSmallGraph = 40;          // nodes
constexpr int64_t kAnnealWork = 20000;      // for each node
constexpr int64_t kRepairWork = 1000;       // for each node: what fits at all is found with less
constexpr double kHiddenShare = 0.1;        // of a copy's time is its price at least, also with other work beside it
constexpr double kBusyDisk = 0.8;           // of a step, beyond which copies are not hidden
size_t at(int32_t place) { return static_cast<size_t>(place); }

bool reads(const GraphNode& node, int32_t storage) {
  return std::find(node.reads.begin(), node.reads.end(), storage) != node.reads.end();
}

}  // namespace

bool Search::is_over() {
  if (scheduler_.work() >= work_end_) return true;
  out_of_time_ = out_of_time_ || deadline_.has_passed();
  return out_of_time_;
}

// xorshift64*: the same numbers everywhere.
uint32_t Search::random(uint32_t below) {
  random_state_ ^= random_state_ >> 12;
  random_state_ ^= random_state_ << 25;
  random_state_ ^= random_state_ >> 27;
  return static_cast<uint32_t>((random_state_ * 0x2545F4914F6CDD1DU) >> 33) % below;
}

Search::Move Search::take(Holds& holds, const Move& move) const {
  Move before = move;
  before.hold = std::exchange(holds.intervals[at(move.interval)], move.hold);
  if (holds.spilled.empty()) return before;
  uint8_t& spilled = holds.spilled[at(graph_.storage_of_interval[at(move.interval)])];
  before.spilled = std::exchange(spilled, static_cast<uint8_t>(move.spilled)) != 0;
  return before;
}

// What it is likely to cost that a storage goes to the file and comes back.
double Search::spill_seconds(int32_t storage, const Schedule& schedule) const {
  double copied = 0;
  for (const ScheduledCopy& copy : schedule.copies) {
    copied += static_cast<double>(graph_.storages[at(schedule.instances[at(copy.instance)].storage)].bytes);
  }
  const double bytes = 2 * static_cast<double>(graph_.storages[at(storage)].bytes);
  const double seconds = bytes / graph_.spill.bytes_per_s;
  const bool hidden = (copied + bytes) / graph_.spill.bytes_per_s < kBusyDisk * graph_.seconds();
  return bytes * graph_.spill.processor_s_per_byte + (hidden ? kHiddenShare * seconds : seconds);
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
      const int32_t interval = graph_.interval_at(read, time);
      const int32_t maker = graph_.storages[at(read)].maker;
      const Hold& hold = holds.intervals[at(interval)];
      if (hold.throughout() || time < hold.until || visited_[at(maker)] == round_) continue;
      if (holds.is_spilled(read)) continue;
      visited_[at(maker)] = round_;
      stack_.push_back(maker);
    }
  }
  return seconds;
}

const std::vector<int32_t>& Search::touched_before(const Schedule& schedule, int32_t end) {
  touched_.assign(graph_.storages.size(), -1);
  for (int32_t i = 0; i < end; ++i) {
    const ScheduledStep& step = schedule.steps[at(i)];
    const GraphNode& node = graph_.nodes[at(step.node)];
    for (const int32_t read : node.reads) touched_[at(read)] = step.time;
    for (const int32_t made : node.makes) touched_[at(made)] = step.time;
  }
  return touched_;
}

// What is alive at the fullest step and not touched by it, the cheapest to give up first. It is given up after the last
// step before that touched it.
std::vector<Search::Move> Search::drops_at(const Schedule& schedule, const Holds& holds, double noise) {
  std::vector<Move> moves;
  const ScheduledStep& full = schedule.steps[at(schedule.peak_step)];
  const GraphNode& node = graph_.nodes[at(full.node)];
  const std::vector<int32_t>& touched = touched_before(schedule, schedule.peak_step);
  for (const Instance& instance : schedule.instances) {
    if (instance.first >= schedule.peak_step || instance.last <= schedule.peak_step) continue;
    const GraphStorage& storage = graph_.storages[at(instance.storage)];
    const bool can_spill = spills_ && storage.spillable;
    if (!(storage.droppable || can_spill) || reads(node, instance.storage)) continue;
    if (storage.bytes <= graph_.step_bytes) continue;  // the step that brings it back takes more
    const int32_t interval = graph_.interval_at(instance.storage, full.time);
    const int32_t since = std::max(instance.time, graph_.begin_of(interval));
    const int32_t last = touched[at(instance.storage)];
    if (last >= full.time) continue;
    const Hold hold = last > since ? Hold{last + 1, std::max(last + 2, full.time)} : evicted_at(since);
    const bool was_spilled = holds.is_spilled(instance.storage);
    if (hold == holds.intervals[at(interval)] && (was_spilled || !can_spill)) continue;
    const auto next = at(interval - storage.first_interval) + 1;
    const int32_t wanted = next < storage.events.size() ? storage.events[next] : schedule.steps[at(instance.last)].time;
    Move move{interval, hold, storage.bytes, remake_seconds(instance.storage, wanted, holds), 0, was_spilled};
    if (can_spill) {
      const double seconds = spill_seconds(instance.storage, schedule);
      move.spilled = was_spilled || !storage.droppable || seconds < move.seconds;
      if (move.spilled) move.seconds = seconds;
    }
    if (hold == holds.intervals[at(interval)] && move.spilled == was_spilled) continue;
    move.price = (move.seconds + 1e-9) / static_cast<double>(move.bytes);
    if (noise > 0) move.price *= 1 + noise * random(1000) / 1000.0;
    moves.push_back(move);
  }
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.price < b.price; });
  return moves;
}

// Gives up the cheapest until a part of the excess is gone; those that cannot be made again in time stay.
bool Search::drop_some(Holds& holds, const std::vector<Move>& moves, int64_t over_bytes) {
  int64_t dropped = 0;
  bool any = false;
  for (const Move& move : moves) {
    const Move before = take(holds, move);
    if (!scheduler_.run(holds).valid) {
      take(holds, before);
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
  const int64_t end = scheduler_.work() + kRepairWork * static_cast<int64_t>(graph_.nodes.size());
  while (scheduler_.work() < end && !is_over()) {
    const Schedule& schedule = scheduler_.run(holds);
    if (!schedule.valid) return false;
    if (schedule.peak_bytes <= limit_bytes) return true;
    const int64_t over = schedule.peak_bytes - limit_bytes;
    const std::vector<Move> moves = drops_at(schedule, holds, noise);
    if (moves.empty() || !drop_some(holds, moves, over)) return false;
  }
  return false;
}

// Gaps in which something was made again, the most time for its bytes first: held throughout, or from then on.
std::vector<Search::Move> Search::keeps(const Schedule& schedule, const Holds& holds) const {
  std::vector<Move> moves;
  for (const Instance& instance : schedule.instances) {
    const ScheduledStep& step = schedule.steps[at(instance.first)];
    if (!step.again && !instance.fetched) continue;
    const int32_t interval = graph_.interval_at(instance.storage, instance.time);
    const Hold& hold = holds.intervals[at(interval)];
    if (hold.throughout()) continue;
    const GraphStorage& storage = graph_.storages[at(instance.storage)];
    const auto bytes = static_cast<double>(storage.bytes);
    const double seconds =
        instance.fetched ? 2 * bytes / graph_.spill.bytes_per_s : graph_.nodes[at(step.node)].seconds;
    const Move move{interval, {}, storage.bytes, seconds, -seconds / bytes, holds.is_spilled(instance.storage)};
    moves.push_back(move);
    if (storage.spillable) add_flip(moves, move, holds);
    if (hold.from <= instance.time) continue;
    moves.push_back(move);
    moves.back().hold = {hold.until, instance.time};
  }
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.price < b.price; });
  return moves;
}

// The other way to get it back.
void Search::add_flip(std::vector<Move>& moves, Move move, const Holds& holds) const {
  const bool can_remake = graph_.storages[at(graph_.storage_of_interval[at(move.interval)])].droppable;
  if (move.spilled ? !can_remake : !spills_) return;
  move.hold = holds.intervals[at(move.interval)];
  move.spilled = !move.spilled;
  moves.push_back(move);
}

// Holds what there is room for.
void Search::relax(Found& found, int64_t limit_bytes, size_t tries) {
  for (bool improved = true; improved && !is_over();) {
    improved = false;
    std::vector<Move> moves = keeps(scheduler_.run(found.holds), found.holds);
    if (moves.size() > tries) moves.resize(tries);
    for (const Move& move : moves) {
      const Move before = take(found.holds, move);
      const Schedule& schedule = scheduler_.run(found.holds);
      if (schedule.valid && schedule.peak_bytes <= limit_bytes && schedule.seconds < found.seconds) {
        found.seconds = schedule.seconds;
        found.peak_bytes = schedule.peak_bytes;
        improved = true;
      } else {
        take(found.holds, before);
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
  random_state_ = 1;  // whatever was asked before
  scheduler_.set_limit(limit_bytes);
  spills_ = false;
  if (std::optional<Found> found = fitted(hold_all(graph_), limit_bytes, 0)) return found;
  spills_ = graph_.can_spill();
  if (spills_) {
    if (std::optional<Found> found = fitted(all_spilled(), limit_bytes, 0)) return found;
  }
  for (const bool anew : {false, true}) {
    for (int segments = 1; segments <= kMostSegments; segments += 1 + segments / 3) {
      if (is_over()) return std::nullopt;
      if (std::optional<Found> found = fitted(checkpoints(graph_, segments, anew), limit_bytes, 0)) return found;
    }
  }
  return graph_.nodes.size() <= kSmallGraph ? anneal_into(limit_bytes) : std::nullopt;
}

// What can go to the file does so whenever nothing reads it: takes least memory.
Holds Search::all_spilled() const {
  Holds holds = hold_all(graph_);
  for (size_t place = 0; place < graph_.storages.size(); ++place) {
    const GraphStorage& storage = graph_.storages[place];
    if (!storage.spillable) continue;
    holds.spilled[place] = 1;
    for (size_t i = 0; i + 1 < storage.events.size(); ++i) {
      const bool is_long = storage.events[i + 1] > storage.events[i] + 1;
      if (is_long) holds.intervals[at(storage.first_interval) + i] = evicted_at(storage.events[i]);
    }
  }
  return holds;
}

// For small graphs, where the constructions fail close to the least that is possible.
std::optional<Found> Search::anneal_into(int64_t limit_bytes) {
  const int64_t work = std::min(effort_, kAnnealWork * static_cast<int64_t>(graph_.nodes.size()));
  for (const int segments : {1, 3}) {
    Found found{checkpoints(graph_, segments, true), 0, INT64_MAX};
    anneal(found, limit_bytes, work / 2, 10 * kStartTemperature);
    if (found.peak_bytes <= limit_bytes) return found;
  }
  return std::nullopt;
}

std::optional<Found> Search::construct(int64_t limit_bytes) {
  std::optional<Found> best;
  const auto consider = [&](std::optional<Found> found) {
    if (!found) return;
    relax(*found, limit_bytes, kAllMoves);
    if (!best || found->seconds < best->seconds) best = std::move(found);
  };
  scheduler_.set_limit(limit_bytes);
  for (const bool spills : {false, true}) {
    if (spills && !graph_.can_spill()) continue;
    spills_ = spills;
    consider(fitted(hold_all(graph_), limit_bytes, 0));
    for (int segments = 2; segments <= kMostSegments && !is_over(); segments += 1 + segments / 3) {
      consider(fitted(checkpoints(graph_, segments), limit_bytes, 0));
    }
  }
  if (spills_) consider(fitted(all_spilled(), limit_bytes, 0));
  if (!best) consider(find_any(limit_bytes));
  return best;
}

// Takes back what was decided in a stretch of the program.
Holds Search::destroyed(const Holds& holds) {
  Holds result = holds;
  const Holds all = hold_all(graph_);
  result.early.clear();
  const auto nodes = static_cast<uint32_t>(graph_.nodes.size());
  const uint32_t width = 1 + random(std::max<uint32_t>(2, std::min<uint32_t>(nodes, 8 + nodes / 8)));
  const uint32_t first = random(nodes);
  for (uint32_t i = first; i < std::min(nodes, first + width); ++i) {
    for (const int32_t made : graph_.nodes[i].makes) {
      const GraphStorage& storage = graph_.storages[at(made)];
      if (!result.spilled.empty()) result.spilled[at(made)] = 0;
      for (size_t interval = at(storage.first_interval); interval < at(storage.first_interval) + storage.events.size();
           ++interval) {
        result.intervals[interval] = all.intervals[interval];
      }
    }
  }
  return result;
}

// Gaps of some length, and those after the last event.
void Search::find_choices() {
  for (const GraphStorage& storage : graph_.storages) {
    if (!storage.droppable && !storage.spillable) continue;
    for (size_t i = 0; i < storage.events.size(); ++i) {
      const bool is_last = i + 1 == storage.events.size();
      if (is_last || storage.events[i + 1] > storage.events[i] + 1) {
        choices_.push_back(storage.first_interval + static_cast<int32_t>(i));
      }
    }
  }
}

void Search::change_one(Holds& holds) {
  const int32_t interval = choices_[random(static_cast<uint32_t>(choices_.size()))];
  if (spills_ && random(4) == 0) return change_spill(holds, interval);
  if (random(12) == 0) return change_early(holds, interval);
  Hold& hold = holds.intervals[at(interval)];
  hold = changed(hold, interval);
}

Hold Search::changed(const Hold& hold, int32_t interval) {
  const int32_t begin = graph_.begin_of(interval);
  const auto some_time = [&] {
    return begin + 1 + static_cast<int32_t>(random(static_cast<uint32_t>(graph_.nodes.size()) - begin));
  };
  if (hold.throughout() && random(2) == 0) return evicted_at(begin);
  switch (random(hold.throughout() ? 3 : 5)) {
    case 0:
      return kNeverResident;
    case 1:
      return {0, some_time()};
    case 2: {
      const int32_t until = some_time();
      return {until, random(2) == 0 ? until + 1 : kNever};
    }
    default:
      return {};
  }
}

// Has the storage of the gap come back the other way.
void Search::change_spill(Holds& holds, int32_t interval) const {
  const int32_t storage = graph_.storage_of_interval[at(interval)];
  if (!graph_.storages[at(storage)].spillable) return;
  uint8_t& spilled = holds.spilled[at(storage)];
  spilled = spilled == 0 ? 1 : 0;
  if (spilled != 0 && holds.intervals[at(interval)].throughout())
    holds.intervals[at(interval)] = evicted_at(graph_.begin_of(interval));
}

// Makes the storage of the gap early, or no more.
void Search::change_early(Holds& holds, int32_t interval) {
  const int32_t storage = graph_.storage_of_interval[at(interval)];
  std::vector<Early>& early = holds.early;
  const auto found = std::find_if(early.begin(), early.end(), [&](const Early& one) { return one.storage == storage; });
  if (found != early.end()) {
    early.erase(found);
    return;
  }
  const std::vector<int32_t>& events = graph_.storages[at(storage)].events;
  const size_t next = at(interval - graph_.storages[at(storage)].first_interval) + 1;
  if (next >= events.size()) return;
  const int32_t time = events[next] - 1 - static_cast<int32_t>(random(3));
  if (time <= events[next - 1]) return;
  const auto later = std::find_if(early.begin(), early.end(), [&](const Early& one) { return one.time > time; });
  early.insert(later, {time, storage});
  holds.intervals[at(interval)] = {std::min(holds.intervals[at(interval)].until, time), time};
}

// Simulated annealing over single decisions; bytes above the limit count as time.
void Search::anneal(Found& found, int64_t limit_bytes, int64_t work, double temperature) {
  scheduler_.set_limit(limit_bytes);
  if (choices_.empty()) find_choices();
  if (choices_.empty()) return;
  const int64_t first = scheduler_.work();
  const double whole = graph_.seconds();
  const auto room = static_cast<double>(std::max<int64_t>(1, limit_bytes - graph_.resident_bytes));
  const auto cost = [&](const Schedule& schedule) {
    if (!schedule.valid) return HUGE_VAL;
    if (schedule.peak_bytes <= limit_bytes) return schedule.seconds / whole;
    const auto over = static_cast<double>(schedule.peak_bytes - limit_bytes);
    const double mean = schedule.overflow(limit_bytes) / static_cast<double>(graph_.nodes.size());
    return schedule.seconds / whole + kPriceOfExcess * (over + mean) / room;
  };
  Holds now = found.holds;
  double now_cost = cost(scheduler_.run(now));
  while (scheduler_.work() - first < work && !is_over()) {
    const double left = 1 - static_cast<double>(scheduler_.work() - first) / static_cast<double>(work);
    const double warmth = temperature * left * left;
    Holds next = now;
    for (uint32_t i = 0, changes = 1 + random(3); i < changes; ++i) change_one(next);
    const Schedule& schedule = scheduler_.run(next);
    const double next_cost = cost(schedule);
    const double chance = std::exp((now_cost - next_cost) / warmth);
    if (!schedule.valid || chance * (1 << 20) < random(1 << 20)) continue;
    now = std::move(next);
    now_cost = next_cost;
    if (schedule.peak_bytes <= limit_bytes && (found.peak_bytes > limit_bytes || schedule.seconds < found.seconds)) {
      found = {now, schedule.seconds, schedule.peak_bytes};
    }
  }
}

Found Search::improve(Found found, int64_t limit_bytes, int64_t work) {
  double temperature = kStartTemperature;
  for (int round = 0; round < kRounds && !is_over(); ++round, temperature /= 2) {
    anneal(found, limit_bytes, work / kRounds / 2, temperature);
    rebuild_parts(found, limit_bytes, work / kRounds / 2);
    if (on_progress_) on_progress_(found);
  }
  relax(found, limit_bytes, kAllMoves);
  return found;
}

// Decides anew what stretches of the program hold, one after the other.
void Search::rebuild_parts(Found& found, int64_t limit_bytes, int64_t work) {
  const int64_t end = scheduler_.work() + work;
  while (scheduler_.work() < end && !is_over()) {
    std::optional<Found> other = fitted(destroyed(found.holds), limit_bytes, 0.5 * random(3));
    if (!other || other->seconds > found.seconds * 1.02) continue;
    relax(*other, limit_bytes, 24);
    if (other->seconds < found.seconds) found = std::move(*other);
  }
}

}  // namespace plimsoll::plan

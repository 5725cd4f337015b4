#include "plimsoll/plan/schedule.h"

#include <algorithm>
#include <utility>

#include "plimsoll/plan/overlap.h"

namespace plimsoll::plan {
namespace {

constexpr int32_t kNone = -1;
size_t at(int32_t place) { return static_cast<size_t>(place); }

}  // namespace

Holds hold_all(const StepGraph& graph) {
  Holds holds{std::vector<Hold>(at(graph.intervals)), {}};
  if (graph.can_spill()) holds.spilled.resize(graph.storages.size(), 0);
  for (const GraphStorage& storage : graph.storages) {
    if (storage.droppable) holds.intervals[at(storage.first_interval) + storage.events.size() - 1] = kNeverResident;
  }
  return holds;
}

double Schedule::overflow(int64_t limit_bytes) const {
  double sum = 0;
  for (const int64_t live : live_bytes) sum += static_cast<double>(std::max<int64_t>(0, live - limit_bytes));
  return sum;
}

Scheduler::Scheduler(const StepGraph& graph)
    : graph_(graph),
      in_closure_(graph.nodes.size(), false),
      wanted_(graph.storages.size(), false),
      awaited_(graph.storages.size(), false) {}

void Scheduler::start(const Holds& holds) {
  holds_ = &holds;
  schedule_.seconds = 0;
  schedule_.steps.clear();
  schedule_.instances.clear();
  schedule_.copies.clear();
  chances_.clear();
  instance_.assign(graph_.storages.size(), kNone);
  expires_.assign(graph_.storages.size(), kNever);
  interval_.assign(graph_.storages.size(), kNone);
  next_early_ = 0;
  if (!holds.spilled.empty()) {
    first_.assign(graph_.storages.size(), kNone);
    newest_.assign(graph_.storages.size(), kNone);
    spill_.assign(graph_.storages.size(), kNone);
    std::fill(awaited_.begin(), awaited_.end(), false);
  }
  std::fill(wanted_.begin(), wanted_.end(), false);
  std::fill(in_closure_.begin(), in_closure_.end(), false);
}

const Schedule& Scheduler::run(const Holds& holds) {
  start(holds);
  const auto nodes = static_cast<int32_t>(graph_.nodes.size());
  int32_t time = 0;
  while (time < nodes && serve(time)) ++time;
  schedule_.valid = time == nodes;
  work_ += static_cast<int64_t>(schedule_.steps.size());
  if (schedule_.valid) find_live_bytes();
  return schedule_;
}

// Runs a node, after what must run again for it; then lets go what is not held.
bool Scheduler::serve(int32_t time) {
  const GraphNode& node = graph_.nodes[at(time)];
  closure_.clear();
  temporary_.clear();
  to_fetch_.clear();
  if (!demand_all(time)) return false;
  std::sort(closure_.begin(), closure_.end());
  for (const int32_t again : closure_) {
    in_closure_[at(again)] = false;
    step(again, time, true);
  }
  for (const int32_t storage : to_fetch_) {
    if (awaited_[at(storage)]) fetch(storage, time);
  }
  step(time, time, false);
  for (const auto* touched : {&node.reads, &node.makes}) {
    for (const int32_t storage : *touched) ++interval_[at(storage)];
  }
  for (const auto* touched : {&node.reads, &node.makes, &std::as_const(temporary_)}) {
    for (const int32_t storage : *touched) settle(storage, time);
  }
  return true;
}

// What the node reads, and what is to be made early.
bool Scheduler::demand_all(int32_t time) {
  for (const int32_t read : graph_.nodes[at(time)].reads) {
    if (!is_there(read, time) && !demand(read, time)) return false;
  }
  const std::vector<Early>& early = holds_->early;
  for (; next_early_ < early.size() && early[next_early_].time <= time; ++next_early_) {
    const int32_t storage = early[next_early_].storage;
    const bool was_produced = interval_[at(storage)] != kNone;
    if (was_produced && !is_there(storage, time) && !demand(storage, time)) return false;
  }
  return true;
}

// Adds what must run again for the storage to the closure, or has it fetched.
bool Scheduler::demand(int32_t storage, int32_t time) {
  if (holds_->is_spilled(storage)) {
    if (!awaited_[at(storage)]) to_fetch_.push_back(storage);
    awaited_[at(storage)] = true;
    return true;
  }
  wanted_[at(storage)] = true;
  const int32_t maker = graph_.storages[at(storage)].maker;
  if (in_closure_[at(maker)]) return true;
  const GraphNode& node = graph_.nodes[at(maker)];
  if (!node.repeatable || node.repeatable_until < time) return false;
  in_closure_[at(maker)] = true;
  closure_.push_back(maker);
  for (const int32_t read : node.reads) {
    if (!is_there(read, time) && !demand(read, time)) return false;
  }
  return true;
}

void Scheduler::step(int32_t place, int32_t time, bool again) {
  const GraphNode& node = graph_.nodes[at(place)];
  const auto now = static_cast<int32_t>(schedule_.steps.size());
  for (const int32_t read : node.reads) {
    if (awaited_[at(read)]) fetch(read, time);
    schedule_.instances[at(instance_[at(read)])].last = now;
  }
  for (const int32_t read : node.in_place) chances_.push_back({now, instance_[at(read)]});
  for (const int32_t storage : node.makes) {
    if (again && !is_recomputed(storage, time)) continue;
    make(storage, time);
    if (again) temporary_.push_back(storage);
  }
  schedule_.steps.push_back({place, time, again});
  schedule_.seconds += node.seconds;
}

// Optional results are left out unless someone wants them, or will and there is none.
bool Scheduler::is_recomputed(int32_t storage, int32_t time) const {
  if (!graph_.storages[at(storage)].optional || wanted_[at(storage)]) return true;
  return !is_there(storage, time) && hold_of(storage).at(time);
}

void Scheduler::make(int32_t storage, int32_t time) {
  const auto now = static_cast<int32_t>(schedule_.steps.size());
  instance_[at(storage)] = static_cast<int32_t>(schedule_.instances.size());
  schedule_.instances.push_back({storage, now, now, time});
  expires_[at(storage)] = kNever;
  wanted_[at(storage)] = false;
  awaited_[at(storage)] = false;
  if (holds_->spilled.empty()) return;
  if (first_[at(storage)] == kNone) first_[at(storage)] = instance_[at(storage)];
  newest_[at(storage)] = instance_[at(storage)];
}

void Scheduler::fetch(int32_t storage, int32_t time) {
  const auto now = static_cast<int32_t>(schedule_.steps.size());
  const int32_t spill = spill_of(storage, now);
  const int32_t earliest = schedule_.instances[at(newest_[at(storage)])].last + 1;
  make(storage, time);
  schedule_.instances.back().fetched = true;
  temporary_.push_back(storage);
  schedule_.copies.push_back({instance_[at(storage)], now, now, true, spill, earliest});
}

// The copy of the first instance, made when the first fetch asks for one: before the step `now` it must be done.
int32_t Scheduler::spill_of(int32_t storage, int32_t now) {
  int32_t& spill = spill_[at(storage)];
  if (spill == kNone) {
    spill = static_cast<int32_t>(schedule_.copies.size());
    Instance& first = schedule_.instances[at(first_[at(storage)])];
    first.spilled = true;
    schedule_.copies.push_back({first_[at(storage)], first.first + 1, now, false});
  }
  return spill;
}

const Hold& Scheduler::hold_of(int32_t storage) const {
  const int32_t interval = graph_.storages[at(storage)].first_interval + std::max(0, interval_[at(storage)]);
  return holds_->intervals[at(interval)];
}

void Scheduler::settle(int32_t storage, int32_t time) {
  const Hold& hold = hold_of(storage);
  if (!hold.at(time)) {
    instance_[at(storage)] = kNone;
  } else {
    expires_[at(storage)] = time < hold.until && !hold.throughout() ? hold.until : kNever;
  }
}

void Scheduler::find_live_bytes() {
  const size_t steps = schedule_.steps.size();
  std::vector<int64_t>& live = schedule_.live_bytes;
  live.assign(steps + 1, 0);
  for (Instance& instance : schedule_.instances) {
    const GraphStorage& storage = graph_.storages[at(instance.storage)];
    if (storage.kept) instance.last = static_cast<int32_t>(steps) - 1;
    live[at(instance.first)] += storage.bytes;
    live[at(instance.last) + 1] -= storage.bytes;
  }
  int64_t held = graph_.resident_bytes;
  for (size_t i = 0; i < steps; ++i) {
    held += live[i];
    live[i] = held + graph_.nodes[at(schedule_.steps[i].node)].scratch_bytes;
  }
  live.pop_back();
  take_in_place();
  const auto all_steps = static_cast<int64_t>(steps + schedule_.copies.size());
  const int64_t taken = all_steps * graph_.step_bytes;
  if (!schedule_.copies.empty()) overlap_copies(graph_, limit_bytes_ - taken, schedule_);
  for (int64_t& bytes : live) bytes += taken;
  const auto peak = std::max_element(live.begin(), live.end());
  schedule_.peak_bytes = live.empty() ? graph_.resident_bytes + taken : *peak;
  schedule_.peak_step = static_cast<int32_t>(peak - live.begin());
}

void Scheduler::take_in_place() {
  int32_t taken = kNone;  // the last step that was made in place
  for (const Chance& chance : chances_) {
    const Instance& instance = schedule_.instances[at(chance.instance)];
    if (chance.step == taken || instance.last != chance.step) continue;
    if (instance.spilled || graph_.storages[at(instance.storage)].kept) continue;
    schedule_.live_bytes[at(chance.step)] -= graph_.storages[at(instance.storage)].bytes;
    taken = chance.step;
  }
}

}  // namespace plimsoll::plan

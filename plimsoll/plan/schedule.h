// From the decision what to hold to the steps that follow from it, their time and their memory.
//
// Between two events of a storage (made, read) lies a gap. In a gap an instance is either held, or given up and made
// again when some node wants it. A Hold says when: an instance is held before the time `until`, given up then, and when
// it is made again at `from` or later, held to the gap's end. The gap after the last event is held for those that
// recompute from it. What is made early is made again before a node that does not want it, because there is room then.
// What is `spilled` is not computed again but comes back from a file, to which it went when it was made.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/plan/step_graph.h"

namespace plimsoll::plan {

inline constexpr int32_t kNever = INT32_MAX;

// Times are counted in nodes.
struct Hold {
  int32_t until = kNever;
  int32_t from = 0;

  bool at(int32_t time) const { return time < until || time >= from; }
  bool throughout() const { return until >= from; }
  bool operator==(const Hold&) const = default;
};

// Given up at once, and held when it is made again after `begin`.
inline Hold evicted_at(int32_t begin) { return {0, begin + 1}; }
// Never held: made anew for each that wants it.
inline constexpr Hold kNeverResident = {0, kNever};

struct Early {
  int32_t time = 0;
  int32_t storage = 0;
};

struct Holds {
  std::vector<Hold> intervals;        // of the graph
  std::vector<Early> early;           // by time
  std::vector<uint8_t> spilled = {};  // by storage: 1 where it comes from the file; empty: none does

  bool is_spilled(int32_t storage) const { return !spilled.empty() && spilled[static_cast<size_t>(storage)] != 0; }
};

// Everything is held while it is needed: the program as it is.
Holds hold_all(const StepGraph& graph);

struct ScheduledStep {
  int32_t node = 0;
  int32_t time = 0;  // the node whose turn it is: what runs again does so for this one
  bool again = false;
};

// The life of one writing of a storage, in steps: alive in [first, last].
struct Instance {
  int32_t storage = 0;
  int32_t first = 0;
  int32_t last = 0;
  int32_t time = 0;      // at which it was made
  bool spilled = false;  // the file has it from this one
  bool fetched = false;  // from the file
};

// On its way from before the step `start` until before the step `finish`.
struct ScheduledCopy {
  int32_t instance = 0;  // that goes to the file, or comes from there
  int32_t start = 0;
  int32_t finish = 0;
  bool fetches = false;
  int32_t spill = -1;    // of a fetch: place in Schedule::copies
  int32_t earliest = 0;  // of a fetch: when the instance before it is gone
  double waited_s = 0;   // by the step `finish`
};

struct Schedule {
  bool valid = false;  // false: something is wanted that cannot be made again any more
  double seconds = 0;
  int64_t peak_bytes = 0;  // alive at once, what comes in and what the steps take included
  int32_t peak_step = 0;
  std::vector<ScheduledStep> steps;
  std::vector<Instance> instances;  // in the order they are made
  std::vector<int64_t> live_bytes;  // at each step, counted in the same way
  std::vector<ScheduledCopy> copies;

  // Bytes above a limit, summed over the steps.
  double overflow(int64_t limit_bytes) const;
};

// Makes schedules of one graph; keeps its memory from one to the next.
class Scheduler {
 public:
  explicit Scheduler(const StepGraph& graph);

  // Good until the next call.
  const Schedule& run(const Holds& holds);

  // Copies overlap with steps where no more than this is alive then.
  void set_limit(int64_t bytes) { limit_bytes_ = bytes; }

  int64_t work() const { return work_; }  // steps scheduled so far

 private:
  void start(const Holds& holds);
  bool serve(int32_t time);
  bool demand_all(int32_t time);
  bool demand(int32_t storage, int32_t time);
  bool is_there(int32_t storage, int32_t time) const {
    return instance_[static_cast<size_t>(storage)] >= 0 && time < expires_[static_cast<size_t>(storage)];
  }
  void step(int32_t node, int32_t time, bool again);
  void make(int32_t storage, int32_t time);
  void fetch(int32_t storage, int32_t time);
  int32_t spill_of(int32_t storage, int32_t now);
  bool is_recomputed(int32_t storage, int32_t time) const;
  void settle(int32_t storage, int32_t time);
  const Hold& hold_of(int32_t storage) const;
  void find_live_bytes();
  void take_in_place();

  // At `step` result 0 takes the memory of `instance`, if that dies there.
  struct Chance {
    int32_t step = 0;
    int32_t instance = 0;
  };

  const StepGraph& graph_;
  const Holds* holds_ = nullptr;
  Schedule schedule_;
  std::vector<int32_t> instance_;  // by storage: the one to read; -1: none
  std::vector<int32_t> expires_;   // by storage: when that one is given up
  std::vector<int32_t> interval_;  // by storage: events so far, less one
  size_t next_early_ = 0;
  std::vector<int32_t> closure_;    // nodes to run again for the node whose turn it is
  std::vector<bool> in_closure_;    // by node
  std::vector<bool> wanted_;        // by storage: to be made by the closure
  std::vector<int32_t> temporary_;  // storages made again for the node whose turn it is
  std::vector<Chance> chances_;     // in the order of steps, the preferred first
  std::vector<int32_t> to_fetch_;   // storages for the node whose turn it is
  std::vector<bool> awaited_;       // by storage: in to_fetch_, and not there yet
  std::vector<int32_t> first_;      // by storage: its first instance, where something is spilled
  std::vector<int32_t> newest_;     // by storage: its newest, there or given up
  std::vector<int32_t> spill_;      // by storage: in Schedule::copies; kNone
  int64_t limit_bytes_ = INT64_MAX;
  int64_t work_ = 0;
};

}  // namespace plimsoll::plan

// The search for what to hold: least time with no more than so many bytes alive. Starts from several constructions,
// then takes decisions back in one place and makes them anew, as long as the effort lasts. Every candidate is scheduled
// exactly; estimates only choose which to look at. Effort is counted in scheduled steps, so that the same effort finds
// the same on every machine, busy or not; only a deadline that the caller sets may end it by the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/plan/deadline.h"
#include "plimsoll/plan/schedule.h"

namespace plimsoll::plan {

struct Found {
  Holds holds;
  double seconds = 0;
  int64_t peak_bytes = 0;  // that the schedule takes
};

class Search {
 public:
  // `effort`: the most scheduled steps that one search for any plan may take in wandering.
  Search(const StepGraph& graph, Deadline deadline, int64_t effort = INT64_MAX)
      : graph_(graph), scheduler_(graph), deadline_(deadline), effort_(effort) {}

  // So much more effort from now on, for all calls together; at first there is no limit.
  void allow(int64_t work) { work_end_ = scheduler_.work() + work; }
  bool is_over();  // the effort is spent, or the deadline has passed

  // Called now and then with the best so far.
  void tell(std::function<void(const Found&)> on_progress) { on_progress_ = std::move(on_progress); }

  // The first construction that is within the limit; fast, whatever its time. The same limit gives the same answer.
  std::optional<Found> find_any(int64_t limit_bytes);

  // The best of the constructions, or nothing when none is within the limit.
  std::optional<Found> construct(int64_t limit_bytes);

  // A faster one, if the effort (in scheduled steps) finds any.
  Found improve(Found found, int64_t limit_bytes, int64_t work);

  const Schedule& schedule(const Holds& holds) { return scheduler_.run(holds); }
  int64_t work() const { return scheduler_.work(); }
  bool is_out_of_time() const { return out_of_time_; }

 private:
  // A gap to give up (or to hold), and what that promises.
  struct Move {
    int32_t interval = 0;
    Hold hold;
    int64_t bytes = 0;     // alive in it
    double seconds = 0;    // to make it again
    double price = 0;      // lower first
    bool spilled = false;  // whether its storage comes back from the file
  };
  // Takes a decision, and returns the one that was there.
  Move take(Holds& holds, const Move& move) const;

  bool repair(Holds& holds, int64_t limit_bytes, double noise);
  bool drop_some(Holds& holds, const std::vector<Move>& moves, int64_t over_bytes);
  std::vector<Move> drops_at(const Schedule& schedule, const Holds& holds, double noise);
  std::vector<Move> keeps(const Schedule& schedule, const Holds& holds) const;
  void add_flip(std::vector<Move>& moves, Move move, const Holds& holds) const;
  double spill_seconds(int32_t storage, const Schedule& schedule) const;
  Holds all_spilled() const;
  void relax(Found& found, int64_t limit_bytes, size_t tries);
  double remake_seconds(int32_t storage, int32_t time, const Holds& holds);
  Holds destroyed(const Holds& holds);
  void anneal(Found& found, int64_t limit_bytes, int64_t work, double temperature);
  std::optional<Found> anneal_into(int64_t limit_bytes);
  void rebuild_parts(Found& found, int64_t limit_bytes, int64_t work);
  void change_one(Holds& holds);
  Hold changed(const Hold& hold, int32_t interval);
  void change_early(Holds& holds, int32_t interval);
  void change_spill(Holds& holds, int32_t interval) const;
  const std::vector<int32_t>& touched_before(const Schedule& schedule, int32_t step);
  void find_choices();
  std::optional<Found> fitted(Holds holds, int64_t limit_bytes, double noise);
  uint32_t random(uint32_t below);

  const StepGraph& graph_;
  Scheduler scheduler_;
  Deadline deadline_;
  int64_t effort_;
  int64_t work_end_ = INT64_MAX;
  std::function<void(const Found&)> on_progress_ = nullptr;
  bool out_of_time_ = false;
  bool spills_ = false;  // whether what is given up may go to the file
  uint64_t random_state_ = 1;
  std::vector<int32_t> choices_;  // gaps in which giving up could save anything
  std::vector<int32_t> visited_;  // by node: the round in which it was counted
  std::vector<int32_t> touched_;  // by storage: the time of the last step that did
  int32_t round_ = 0;
  std::vector<int32_t> stack_;
};

// Cuts the forward pass into `segments` parts of like weight, holds what crosses the cuts, and gives up the rest until
// the backward pass wants it: checkpointing as it is commonly done.
// `anew`: everything is made anew for each that wants it, which takes least memory and most time.
Holds checkpoints(const StepGraph& graph, int segments, bool anew = false);
// The same with cuts at given nodes, each before that node.
Holds checkpoints_at(const StepGraph& graph, const std::vector<int32_t>& cuts, bool anew = false);

}  // namespace plimsoll::plan

// A profile of a run: time and bytes by op, module and category, predicted beside measured, and how long steps waited
// for their data. As text, and as a Chrome trace that has the same tables under "plimsoll".
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/report/step_history.h"
#include "plimsoll/train/rank_waits.h"

namespace plimsoll::report {

// Times of the ops of a session's programs over the last steps of a run, where the executors measure them. The first
// step, which touches memory and code for the first time, counts only where it is the only one. When the programs
// change, it begins anew.
class OpTimes {
 public:
  void add(run::Session& session);
  // Of each op of each program.
  std::vector<std::vector<double>> median() const;

 private:
  using Times = std::vector<std::vector<double>>;
  std::deque<Times> last_;  // steps
  int64_t steps_ = 0;
};

struct ProfiledStep {
  double seconds = 0;
  double wait_seconds = 0;  // for its batch; 0: that was ready
};

// Of the data pipeline.
struct ProfiledData {
  int64_t planned_bytes = 0;  // that its buffers may take
  int64_t peak_bytes = 0;     // that they took
  int workers = 0;
};

struct Profile {
  std::string title = {};
  StepHistory history = {};                         // its seconds are measured ones
  std::vector<std::vector<double>> predicted = {};  // seconds of each op of each part
  std::vector<ProfiledStep> steps = {};
  std::optional<ProfiledData> data = {};
  train::RankWaits waits = {};       // of several ranks
  int64_t predicted_peak_bytes = 0;  // of the process where there is a budget, else of the arena
  int64_t measured_peak_bytes = 0;   // likewise
};

// A profile of the session's programs: `times` of their ops, predictions by what is known of this machine's kernels.
// `plan` says how often each runs; nothing: once.
Profile profile_of(const std::string& title, run::Session& session, const OpTimes& times,
                   const plan::StepPlan* plan = nullptr);

// One line of a table: ops of one kind, or of one module, in one step.
struct ProfileRow {
  std::string name = {};
  int64_t runs = 0;
  double predicted_s = 0;
  double measured_s = 0;
  int64_t bytes = 0;  // that they produce, with the scratch of their kernels; of a category: alive at the peak
};

struct ProfileTables {
  std::vector<ProfileRow> ops;         // by kind, those that took longest first
  std::vector<ProfileRow> modules;     // likewise
  std::vector<ProfileRow> phases;      // forward, backward, update
  std::vector<ProfileRow> categories;  // bytes alone, the most first
  ProfileRow total;                    // of all ops
};

ProfileTables tables_of(const Profile& profile);

std::string profile_text(const Profile& profile);
std::string profile_file(const Profile& profile);

}  // namespace plimsoll::report

// What is known of the times of kernels on this machine: the user's cost cache, read once and written when something
// was learnt. A cache that cannot be read or written is no reason not to run: that is a note.
#pragma once

#include <functional>
#include <string>

#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/train/measure.h"

namespace plimsoll::train {

// What a caller may be told while a step is planned and measured.
struct Listener {
  std::function<void(const std::string& note)> on_note = {};
  std::function<void(size_t done, size_t all)> on_measure = {};     // kinds of kernel that are timed
  std::function<void(const std::string& how)> on_alternative = {};  // that is planned next: "--batch"
};

class KnownCosts {
 public:
  explicit KnownCosts(Listener listener = {});

  plan::Costs of(const kernels::Lowered& lowered) const { return plan::costs_of(lowered, table()); }

  // Times what the programs of a step run, as far as it is not known, for so long at most. Whether anything was learnt.
  bool learn(const plan::StepPlan& step, double time_limit_s);

  // Learns what a device can do on so many threads (0: all), where that is not known: by three short kernels. A note
  // where there is no memory for them.
  void calibrate(const std::string& device, int threads);

  // What plans need to know of the disk of a folder: measured once.
  plan::SpillOptions spill_in(const std::string& folder);

  // Gives back the memory of what the file has, until that is asked for again.
  void rest();

 private:
  plan::CostTable& table() const;
  void save();
  void note(const std::string& text) const;

  Listener listener_;
  std::string path_ = plan::cost_cache_path();
  mutable plan::CostTable table_;
  mutable bool is_loaded_ = true;
  bool is_kept_ = true;  // what was learnt is in the file
};

}  // namespace plimsoll::train

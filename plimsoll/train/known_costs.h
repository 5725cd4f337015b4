// What is known of the times of kernels on this machine: the user's cost cache, read once and written when something
// was learnt. A cache that cannot be read or written is no reason not to run: that is a note.
#pragma once

#include <functional>
#include <string>

#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/plan/measure.h"
#include "plimsoll/plan/parts.h"

namespace plimsoll::train {

// What a caller may be told while a step is planned and measured.
struct Listener {
  std::function<void(const std::string& note)> on_note = {};
  std::function<void(size_t done, size_t all)> on_measure = {};  // kinds of kernel that are timed
};

class KnownCosts {
 public:
  explicit KnownCosts(Listener listener = {});

  plan::Costs of(const kernels::Lowered& lowered) const { return plan::costs_of(lowered, table_); }

  // Times what the programs of a step run, as far as it is not known. Whether anything was learnt.
  bool learn(const plan::StepPlan& step);

  // What plans need to know of the disk of a folder: measured once.
  plan::SpillOptions spill_in(const std::string& folder);

 private:
  bool save_more_than(size_t known) const;
  void note(const std::string& text) const;

  Listener listener_;
  std::string path_ = plan::cost_cache_path();
  plan::CostTable table_;
};

}  // namespace plimsoll::train

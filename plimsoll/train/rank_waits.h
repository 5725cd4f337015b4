// Who waited for whom in a run of several ranks. A collective ends for all when the last rank has come to it: what the
// others are in it for longer than that one, they have waited.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/run/session.h"
#include "plimsoll/train/rank_part.h"

namespace plimsoll::train {

struct CollectiveWait {
  std::string name = {};             // "all_reduce grad.fc1.weight"
  std::vector<double> seconds = {};  // that each rank was in it, in all steps but the first

  double waited(size_t rank) const;
};

struct RankWaits {
  std::vector<CollectiveWait> collectives = {};  // in the order of the step
  double run_seconds = 0;                        // of the steps

  size_t ranks() const { return collectives.empty() ? 0 : collectives[0].seconds.size(); }
  double waited(size_t rank) const;
  double waited_by_others(size_t rank) const;  // on average
  // The rank that waits least, where the others wait a good part of their time and most of it for this one.
  std::optional<int> slow_rank() const;
};

// Called by every rank, after a run whose steps took so long; nothing for one rank alone, and nothing on cards, where
// the host does not wait for collectives.
RankWaits gather_waits(const RankPart& part, run::Session& session, double run_seconds);

}  // namespace plimsoll::train

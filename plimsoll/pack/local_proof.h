// Looks for a few neighbouring sections that do not fit by themselves: a bound beyond the live load, with its place. A
// search over everything would prove as much only after it has tried all that goes on elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/search.h"

namespace plimsoll::pack {

class LocalProof {
 public:
  LocalProof(const Instance& instance, const Inference& inference);

  // Nothing is left to look at: each window fits.
  bool exhausted() const { return windows_.empty(); }

  // Searches the next window, longer each time round; must not be exhausted. The window when it has been shown not to
  // fit in `capacity` units. Capacities must not fall from call to call.
  std::optional<Span> next(int64_t capacity, Limits limits);

  int64_t nodes() const { return nodes_; }

 private:
  const Instance& instance_;
  const Inference& inference_;
  std::vector<Span> windows_;  // those not known to fit
  size_t at_ = 0;
  int64_t nodes_for_each_;
  int64_t nodes_ = 0;
};

}  // namespace plimsoll::pack

// When a search is to end at the latest, by the clock. Where none is set the clock is never looked at: what is found
// then depends on nothing but what was asked, on a machine that is busy as on one that is not.
#pragma once

#include <algorithm>
#include <chrono>

namespace plimsoll::plan {

struct Deadline {
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  Clock::time_point at = Clock::time_point::max();
  Now now = Clock::now;  // tests have their own

  bool is_set() const { return at != Clock::time_point::max(); }
  bool has_passed() const { return is_set() && now() >= at; }

  // After this share of the time that is left.
  Deadline share(double share) const {
    if (!is_set()) return *this;
    const auto start = now();
    const auto left = std::max(at - start, Clock::duration::zero());
    return {start + std::chrono::duration_cast<Clock::duration>(share * left), now};
  }
};

}  // namespace plimsoll::plan

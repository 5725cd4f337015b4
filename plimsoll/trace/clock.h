// Time stamps for hot paths. ticks() reads the processor's time-stamp counter where there is one, a third of the price
// of steady_clock; the rate of the counter is learnt over the life of the clock. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace plimsoll::trace {

class Clock {
 public:
  int64_t ticks() const { return now() - first_tick_; }

  // Nanoseconds per tick, so far.
  double ns_per_tick() const {
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start_;
    const int64_t elapsed_ticks = ticks();
    return elapsed_ticks > 0 ? elapsed.count() / static_cast<double>(elapsed_ticks) : 0;
  }

 private:
  static int64_t now() {
#if defined(__x86_64__)
    return static_cast<int64_t>(__rdtsc());
#else
    return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
  }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t first_tick_ = now();
};

}  // namespace plimsoll::trace

// Counts what this test binary takes from malloc and its kin, by any thread. Under sanitizers nothing is counted.
#pragma once

#include <cstdint>

#include "plimsoll/run/executor.h"

namespace plimsoll {

int64_t allocation_count();
int64_t heap_bytes();       // that are taken now
int64_t heap_peak_bytes();  // at most, since it was reset
void reset_heap_peak();
bool counts_allocations();

inline int64_t allocations_of_a_step(run::Executor& executor) {
  const int64_t before = allocation_count();
  executor.step();
  return allocation_count() - before;
}

// What one step takes.
struct StepHeap {
  int64_t most_bytes = 0;  // at once, above what was taken before
  int64_t kept_bytes = 0;  // that are still taken after it
};

inline StepHeap heap_of_a_step(run::Executor& executor) {
  reset_heap_peak();
  const int64_t before = heap_bytes();
  executor.step();
  return {heap_peak_bytes() - before, heap_bytes() - before};
}

}  // namespace plimsoll

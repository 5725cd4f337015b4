// Counts what this test binary takes from malloc and its kin, by any thread. Under sanitizers nothing is counted.
#pragma once

#include <cstdint>

#include "plimsoll/run/executor.h"

namespace plimsoll {

int64_t allocation_count();
bool counts_allocations();

inline int64_t allocations_of_a_step(run::Executor& executor) {
  const int64_t before = allocation_count();
  executor.step();
  return allocation_count() - before;
}

}  // namespace plimsoll

// What a process takes beside the pages of its arena, in bytes: predicted by a model before a step is planned, so that
// a refusal and a run say the same on every day, and by measuring when the kernels of its plan are bound.
#pragma once

#include <cstdint>

#include "plimsoll/base/bytes.h"

namespace plimsoll::train {

// What each step of a plan takes beside the arena: a bound kernel, its values, its offsets.
inline constexpr int64_t kStepBytes = 16 * kKiB;

// What kernels may take from the heap during a step, for each thread, and give back within it (libraries make lists of
// arguments): a part of what is counted for a run.
inline constexpr int64_t kStepHeapBytes = 32 * 1024;

// What the model counts.
struct Bound {
  int64_t steps = 0;  // of all programs of a plan; before there is one, ops of the step
  int threads = 1;
};

// Code and data of the program and its libraries, what binding so many steps puts on the heap, stacks. Depends on the
// program, its libraries and `bound` alone, unless the process holds more already, which is `held_bytes`.
int64_t booked_overhead(const Bound& bound, int64_t held_bytes);

// The same with the kernels bound to addresses of an arena that has no pages yet, and the heap trimmed: as the process
// is now, and what a run adds.
int64_t measured_overhead(const Bound& bound);

// An arena of so many bytes with the kernel's own for it: page tables, the index of its pages, rounding to pages.
int64_t arena_with_tables(int64_t arena_bytes);

// A process with an arena of so many bytes beside an overhead.
int64_t process_bytes(int64_t arena_bytes, int64_t overhead_bytes);

// The largest arena whose process is within a budget; may be negative.
int64_t arena_within(int64_t budget_bytes, int64_t overhead_bytes);

// The most that the process took until now, the kernel's own included.
int64_t peak_until_now();

}  // namespace plimsoll::train

#include "plimsoll/train/overhead.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/process.h"

namespace plimsoll::train {
namespace {

// Of code, 3/8 are touched at most: oneDNN has kernels for every machine, of which one runs its own.
constexpr int64_t kCodeShare = 3;
constexpr int64_t kCodeShares = 8;
constexpr int64_t kHeap = 5 * kMiB;          // of the program itself, and what planning and timing leave in pieces
constexpr int64_t kEachThread = 512 * kKiB;  // its stacks, the kernel's for it, its part of the heap
constexpr int64_t kKernelOwn = 256 * kKiB;   // tasks, files, mappings
constexpr int64_t kGrain = 4 * kMiB;         // of what was measured

// What a run adds when kernels are bound.
constexpr int64_t kCodeOfRun = kMiB;              // that runs for the first time
constexpr int64_t kEachStepOfRun = 2 * kKiB;      // parameters are started
constexpr int64_t kEachThreadOfRun = 256 * kKiB;  // with what its kernels take from the heap
static_assert(4 * kStepHeapBytes <= kEachThreadOfRun);

// A page of 4 KiB takes 8 bytes of a page table and 9 of the index of a memory file; an arena is rounded up to pages of
// a 4096th of it: together less than a 224th.
constexpr int64_t kTableShare = 224;

int64_t run_adds(const Bound& bound) {
  return kCodeOfRun + bound.steps * kEachStepOfRun + bound.threads * kEachThreadOfRun + kKernelOwn;
}

}  // namespace

int64_t booked_overhead(const Bound& bound, int64_t held_bytes) {
  const int64_t threads = bound.threads * kEachThread;
  const int64_t code = code_bytes() / kCodeShares * kCodeShare;
  const int64_t model = code + kHeap + bound.steps * kStepBytes + threads + kKernelOwn;
  const int64_t grown = held_bytes + bound.steps * kStepBytes / 2 + threads + run_adds(bound);
  return grown <= model ? model : align_up(grown, kGrain);
}

int64_t measured_overhead(const Bound& bound) { return process_memory().bytes() + run_adds(bound); }

int64_t arena_with_tables(int64_t arena_bytes) { return arena_bytes + arena_bytes / kTableShare + 1; }

int64_t process_bytes(int64_t arena_bytes, int64_t overhead_bytes) {
  return arena_with_tables(arena_bytes) + overhead_bytes;
}

int64_t arena_within(int64_t budget_bytes, int64_t overhead_bytes) {
  const int64_t left = budget_bytes - overhead_bytes;
  int64_t arena = left - left / (kTableShare + 1);
  while (arena_with_tables(arena) > left) --arena;
  return arena;
}

int64_t peak_until_now() { return arena_with_tables(process_peak_bytes()) + kKernelOwn; }

}  // namespace plimsoll::train

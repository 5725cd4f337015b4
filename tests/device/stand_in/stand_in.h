// A stand-in for NVIDIA's driver (libcuda.so.1) over host memory, for machines without a GPU. It is as strict as the
// real one where programs get it wrong, and as asynchronous as it may be:
//
// - Work on streams is queued and runs late: only when somebody waits, or a step at a time when an event is queried, in
//   random order over the streams. Whoever unmaps or reuses memory without an event is found by stand_in_check.
// - Unmapping does not wait. Work that then meets the address counts as a fault.
// - Mapping over a mapping, unmapping a part, giving access to nothing, releasing twice are errors.
// - While a stream captures, calls that the driver prohibits are errors unless the thread's mode is relaxed. So are
//   work and events on it, but where `graphs` is set: then they go into a graph, with those of other streams that wait
//   for them, and each launch runs them again, as late as it may. A stream that did not come back is an error.
// - Whoever waits for a stream that other threads must bring on does so for `timeout_s`, and then gets an error.
//
// Controls, for tests. All state is the process's; stand_in_reset puts it back and forgets what was queued.
#pragma once

#include <cstddef>
#include <cstdint>

struct StandInSettings {
  int devices = 1;
  size_t card_bytes = size_t{256} << 20;
  size_t granularity = size_t{2} << 20;
  size_t context_bytes = 0;  // that a context takes of the card
  size_t others_bytes = 0;   // that other processes hold
  bool graphs = false;       // captures make graphs
  double timeout_s = 10;
  uint64_t seed = 1;
};
void stand_in_reset(const StandInSettings* settings);
void stand_in_wait_at_most(double timeout_s);  // from now on

// The Nth call from now on that can fail does, counted from 1; 0: none does.
void stand_in_fail_at(int64_t n);
int64_t stand_in_calls();  // that could have failed, since the last reset

// Work on a stream: writes `value` to the 8-byte words of a range, or compares them with it.
void stand_in_fill(void* stream, void* at, size_t bytes, uint64_t value);
void stand_in_check(void* stream, const void* at, size_t bytes, uint64_t value);

struct StandInCounts {
  int64_t faults = 0;      // work that met an address where nothing is mapped
  int64_t mismatches = 0;  // words that were not as stand_in_check expected
  int64_t executed = 0;    // pieces of work
  int64_t handles = 0;     // that exist now
  int64_t mappings = 0;
  int64_t ranges = 0;
  int64_t events = 0;
  int64_t waits = 0;  // of streams for events, ever
  int64_t streams = 0;
  int64_t allocations = 0;  // that cuMemAlloc gave
  int64_t graphs = 0;       // and what was made of them
  int64_t launches = 0;     // of graphs, ever
};
StandInCounts stand_in_counts();

// An allocation trace against an allocator: how much it reserves, how it pays for that, how fast it is. A Policy is one
// allocator over simulated memory; replay() drives it through a trace.
#pragma once

#include <cstdint>
#include <string_view>

#include "plimsoll/base/oom.h"
#include "plimsoll/trace/trace.h"

namespace plimsoll::replay {

// Where a policy gets its memory: a device of simulated pages.
struct Device {
  int64_t page_bytes = 2 << 20;
  Budget capacity{int64_t{1} << 62, "no --capacity"};
};

struct PolicyStats {
  int64_t reserved_peak_bytes = 0;    // held from the device at once, used or not
  int64_t pages_committed = 0;        // pages taken from the device, each time
  int64_t pages_remapped = 0;         // pages taken from a freed place and mapped elsewhere
  int64_t remapping_allocations = 0;  // allocations that had to remap
};

// Not thread-safe. Blocks are named by slots: small numbers, used again after a free, so that a policy can keep what it
// knows of a block in an array.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::string_view name() const = 0;  // as --policy has it
  // ResourceExhausted when the device has not enough, with what the policy knows; replay() adds what the trace knows.
  virtual void allocate(uint32_t slot, int64_t bytes, int16_t stream) = 0;
  virtual void free(uint32_t slot) = 0;
  virtual PolicyStats stats() const = 0;
};

struct ReplayResult {
  int64_t events = 0;
  int64_t live_peak_bytes = 0;
  PolicyStats policy;
  double ns_per_event = 0;  // processor time of the policy's own work

  double ratio() const;  // reserved peak to live peak; 1 for an empty trace
  double remapping_per_1000_events() const;
};

// Throws what the policy throws, with live blocks by category and tag added to the report.
ReplayResult replay(const trace::Trace& trace, Policy& policy);

}  // namespace plimsoll::replay

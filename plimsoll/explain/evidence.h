// The measurements that the causes of a snapshot are decided from, each from one look at the timeline or the state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/snapshot.h"
#include "plimsoll/explain/timeline.h"

namespace plimsoll::explain {

// The last request that failed.
struct OomEvent {
  int64_t event = 0;  // its position
  int64_t requested_bytes = 0;
  int64_t device_free_bytes = 0;  // what the driver had free
  uint32_t stack = 0;
};
std::optional<OomEvent> find_oom(const DeviceState& device);

// Bytes that the allocator had from the driver just before `event`.
int64_t reserved_bytes(const DeviceState& device, int64_t event);

// A cap below the device shows in that the driver had room and the allocator did not ask it. The cap then lies
// between what was reserved and what would have been; `bytes` is the roundest figure there.
struct CapEstimate {
  int64_t bytes = 0;
  int64_t least_bytes = 0;
  int64_t most_bytes = 0;
};
std::optional<CapEstimate> estimate_cap(const OomEvent& oom, int64_t reserved);

// Blocks of one stack that every step leaves behind.
struct Growth {
  uint32_t stack = 0;
  int64_t bytes_per_step = 0;
  int64_t bytes = 0;  // all that is left behind
  int64_t blocks = 0;
  int64_t steps = 0;
  bool steps_known = false;  // false: "step" is one call of the stack
};
// The largest first, judged by what is alive just before `event`.
std::vector<Growth> find_growth(const Timeline& timeline, int64_t event);

// Peak of each finished step, and of the one under way at `event`.
struct StepPeaks {
  std::vector<int64_t> finished;
  int64_t current = 0;
};
StepPeaks step_peaks(const Timeline& timeline, int64_t event);

// A segment in which live blocks keep free bytes from being used.
struct PinnedSegment {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t free_bytes = 0;
  int64_t largest_free_bytes = 0;
  int64_t live_blocks = 0;
  uint32_t stack = 0;  // of the largest live block
};
// With free bytes between live ones, most free bytes first.
std::vector<PinnedSegment> pinned_segments(const DeviceState& device);

// Blocks of a model that ran one after the other and keep their activations: what checkpointing works on.
struct RepeatedBlocks {
  int64_t count = 0;          // that have run
  int64_t bytes = 0;          // of their activations
  std::string place;          // of the call that they have in common
  bool transformers = false;  // of the Hugging Face library, which has a switch for it
};
// Nothing when no part repeats at least three times, or when checkpointing is on already.
std::optional<RepeatedBlocks> find_repeated_blocks(const StackTable& stacks, const Timeline& timeline, int64_t event);

// What was alive just before `event`, by the user's line, the model's lines and the innermost one: rows that read the
// same are one. At most `most`, then one for the rest, so that the bytes add up to the live total.
std::vector<Culprit> culprits(const StackTable& stacks, const Timeline& timeline, int64_t event, size_t most);

}  // namespace plimsoll::explain

// From what was read to why it happened. A cause is given only with the figures that decide it; where the input does
// not tell, the answer is device_full with what is missing, not a guess.
#pragma once

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/memory_summary.h"
#include "plimsoll/explain/snapshot.h"
#include "plimsoll/explain/timeline.h"

namespace plimsoll::explain {

constexpr int64_t kGarbage = int64_t{1} << 50;  // a pebibyte: no device has it, no program needs it at once

// `summary` is the memory_summary of the same device, when the log has one.
Diagnosis diagnose(const Failure& failure, const MemorySummary* summary = nullptr);

// A table alone, without a failure.
Diagnosis diagnose(const MemorySummary& summary);

Diagnosis diagnose(const Snapshot& snapshot, const DeviceState& device, const Timeline& timeline);

}  // namespace plimsoll::explain

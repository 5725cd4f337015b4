// What follows from the figures of a message by subtraction, and the figures as accounts that add up.
#pragma once

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/memory_summary.h"

namespace plimsoll::explain {

// Seen from a container, PyTorch lists its own process among the others: without a clause about this one, a process
// about as large as what the allocator reserved is taken for it.
Failure with_own_process(Failure failure);

// Held on the device by others: as the message lists them, or else what is left when all that is known is taken off.
// Nothing when that cannot be told.
OptionalBytes others(const Failure& failure);

// Held by this process, but not by the framework's allocator.
OptionalBytes outside(const Failure& failure);

// Old messages do not tell others from the context: both are in what is neither free nor reserved.
OptionalBytes unexplained(const Failure& failure);

// Fills accounts and facts; the cause must be set. `summary` may be null.
void add_evidence(const Failure& failure, const MemorySummary* summary, Diagnosis& diagnosis);

}  // namespace plimsoll::explain

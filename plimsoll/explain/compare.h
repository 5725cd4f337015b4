// What grew between two snapshots of one program, by stack.
#pragma once

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/snapshot.h"

namespace plimsoll::explain {

// One diagnosis per device that both have: leak when what is alive grew by more than a twentieth, healthy otherwise.
// The culprits are the stacks that grew, with how much, largest first.
Explanation compare(const Snapshot& before, const Snapshot& after);

}  // namespace plimsoll::explain

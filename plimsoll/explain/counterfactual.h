// The same history under other circumstances: another allocator, half the batch, no leak. What would it have needed?
#pragma once

#include <vector>

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/snapshot.h"
#include "plimsoll/explain/timeline.h"

namespace plimsoll::explain {

// Up to the failure, with the failed request granted; without a failure, over the whole recording. In the order: as it
// was, perfect packing, our pool, PyTorch's allocator from a fresh start, the same with expandable segments, half the
// batch, without the leak (where there is one). The latter two are live bytes: what any allocator needs at least.
std::vector<Counterfactual> counterfactuals(const DeviceState& device, const Timeline& timeline);

}  // namespace plimsoll::explain

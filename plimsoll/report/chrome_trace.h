// A history in the Chrome trace format, which Perfetto and chrome://tracing open: live bytes by category as counters,
// failures and optimizer steps as instants.
#pragma once

#include <string>

#include "plimsoll/explain/snapshot.h"

namespace plimsoll::report {

std::string chrome_trace(const explain::Snapshot& snapshot);

}  // namespace plimsoll::report

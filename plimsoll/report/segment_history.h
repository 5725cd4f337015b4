// Which memory an allocator had from its device, from when to when.
#pragma once

#include <vector>

#include "plimsoll/explain/snapshot.h"
#include "plimsoll/report/page.h"

namespace plimsoll::report {

// Of a device's events, and what is there at the end: what no event took was there before the recording.
std::vector<PageRange> segment_history(const explain::DeviceState& device);

}  // namespace plimsoll::report

// Whether a unit of systemd was killed at its own maximum or because the machine ran out. The killer's line does not
// say; the unit's status, before or after it, does.
#pragma once

#include <string_view>

#include "plimsoll/explain/failure.h"

namespace plimsoll::explain {

// Takes the maximum and the peak out of one line ("Memory: 2.0G (max: 2.0G)", "MemoryMax=2G", "MemoryPeak=…") for a
// failure that systemd told. False when the line has neither.
bool add_unit_limit(std::string_view line, Failure& failure);

// The same of the lines before the failure.
void add_unit_limits(std::string_view before, Failure& failure);

}  // namespace plimsoll::explain

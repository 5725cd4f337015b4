// What a log is searched for: every report has a line with one of these texts, and its other lines follow closely.
#pragma once

#include "plimsoll/explain/needles.h"

namespace plimsoll::explain {

// None is shorter than nine bytes, so that the search may skip.
const Needles& log_needles();

}  // namespace plimsoll::explain

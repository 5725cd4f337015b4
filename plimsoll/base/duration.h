// Durations as people read them.
#pragma once

#include <string>

namespace plimsoll {

// "29.7 us", "38.1 ms", "1.204 s", "5 min 43 s", "2 h 05 min".
std::string format_seconds(double seconds);

}  // namespace plimsoll

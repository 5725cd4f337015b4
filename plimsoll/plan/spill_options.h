// A disk for results that memory has no room for.
#pragma once

#include <cstdint>

namespace plimsoll::plan {

struct SpillOptions {
  double bytes_per_s = 0;            // that it writes, and that it reads; 0: nothing is spilled
  double processor_s_per_byte = 0;   // that a copy takes from the steps beside it, each way
  int64_t least_bytes = 256 * 1024;  // smaller results are not worth a trip
};

}  // namespace plimsoll::plan

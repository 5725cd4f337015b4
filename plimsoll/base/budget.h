// How many bytes a device may give, and where that limit came from.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

struct Budget {
  int64_t bytes = 0;
  std::string source;  // "--budget", "cgroup v2 /user.slice memory.max", "MemAvailable"
};

}  // namespace plimsoll

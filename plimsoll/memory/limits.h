// How much memory this process may still take on this machine, and which rule says so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/budget.h"

namespace plimsoll {

// One rule: `bytes` is what is left of it, its limit less what is in use.
struct Limit {
  int64_t bytes = 0;
  std::string source;  // "cgroup v1 /jobs/7 memory.limit_in_bytes", "RLIMIT_AS", "MemAvailable"
};

// All rules that bind: every ancestor's limit in cgroup v1 and v2, RLIMIT_AS, RLIMIT_DATA, MemAvailable. Swap does not
// count. `root` is the folder that holds proc and sys, for tests.
std::vector<Limit> machine_limits(const std::string& root = "");

// The smallest of them.
Budget machine_budget(const std::string& root = "");

// A budget of this machine as people give it: "auto" is machine_budget(), else a size. ArgumentError for zero, garbage,
// and more than the machine has, with the rule that says so. `source` is the flag or setting that it came from.
Budget parse_budget(std::string_view text, std::string_view source, const std::string& root = "");

}  // namespace plimsoll

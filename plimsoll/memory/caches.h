// The caches of this machine's processors.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

// Bytes of the largest cache of the first processor, as the system has it; 0 where it does not say. `root` is the
// folder that holds sys, for tests.
int64_t largest_cache_bytes(const std::string& root = "");

}  // namespace plimsoll

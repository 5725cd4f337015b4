// What this process holds, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll {

// What is in RAM now beside the pages of FilePages::host, which the kernel counts as shared memory: code, libraries,
// their heaps, stacks. 0 where the system does not tell.
int64_t overhead_bytes();

// The most that the process ever held at once, everything included; 0 where the system does not tell.
int64_t process_peak_bytes();

// Has process_peak_bytes count from now on. Where the system cannot, it goes on as before.
void restart_process_peak();

// The most that the process's memory cgroup ever held, the kernel's own for it included; nothing when it has no limit
// of its own.
std::optional<int64_t> cgroup_peak_bytes(const std::string& root = "");

// Gives memory that was freed back to the system.
void trim_heap();

}  // namespace plimsoll

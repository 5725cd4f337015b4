// What this process holds, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll {

// What of this process is in RAM now. All 0 where the system does not tell.
struct ProcessMemory {
  int64_t anonymous_bytes = 0;  // heap, stacks, code that was generated
  int64_t file_bytes = 0;       // code and data of the program and its libraries, shared with others or not
  int64_t table_bytes = 0;      // page tables, which are the kernel's

  int64_t bytes() const { return anonymous_bytes + file_bytes + table_bytes; }
};

// Beside the pages of FilePages::host, which the kernel counts as shared memory.
ProcessMemory process_memory();

// The size of the program and all libraries that are loaded, as files: what of it is in RAM is less.
int64_t code_bytes();

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

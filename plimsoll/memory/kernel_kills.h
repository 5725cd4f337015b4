// Whether the kernel killed a process for memory: its own counters of the cgroup and the machine, before and after.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll {

// How often the kernel has killed in this process's memory cgroup, and on the whole machine; nothing where it does not
// tell. `root` stands before the paths of /proc and /sys.
std::optional<int64_t> cgroup_kills(const std::string& root = "");
std::optional<int64_t> machine_kills(const std::string& root = "");

struct KillCounts {
  std::optional<int64_t> cgroup = cgroup_kills();
  std::optional<int64_t> machine = machine_kills();
};

struct KernelKill {
  bool killed = false;     // for memory, by the counters or, where there are none, by the signal
  bool in_cgroup = false;  // the cgroup's limit, not the machine's memory
  bool certain = false;
  int64_t limit_bytes = 0;  // of the cgroup
  std::string limit_source;
  int64_t largest_process_bytes = 0;
};

// Of a run that `signal` ended (0: none did) and whose largest process held so many bytes.
KernelKill judge_kill(const KillCounts& before, const KillCounts& after, int signal, int64_t largest_process_bytes);

}  // namespace plimsoll

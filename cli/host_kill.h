// Whether the kernel killed a process of ours for memory: its own counters of the cgroup, before and after.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/memory/process.h"

namespace plimsoll::cli {

// How often the kernel has killed in this process's memory cgroup; nothing where it does not tell.
inline std::optional<int64_t> cgroup_kills(const std::string& root = "") {
  const auto count_in = [](const std::string& path) -> std::optional<int64_t> {
    std::ifstream file(path);
    std::string name;
    for (int64_t count = 0; file >> name >> count;) {
      if (name == "oom_kill") return count;
    }
    return std::nullopt;
  };
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    std::optional<int64_t> count;
    if (const size_t v1 = line.find(":memory:"); v1 != std::string::npos) {
      count = count_in(root + "/sys/fs/cgroup/memory" + line.substr(v1 + 8) + "/memory.oom_control");
    } else if (line.starts_with("0::")) {
      count = count_in(root + "/sys/fs/cgroup" + line.substr(3) + "/memory.events");
    }
    if (count) return count;
  }
  return std::nullopt;
}

// The same of the whole machine.
inline std::optional<int64_t> machine_kills(const std::string& root = "") {
  std::ifstream file(root + "/proc/vmstat");
  std::string name;
  for (int64_t count = 0; file >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return std::nullopt;
}

struct KillCounts {
  std::optional<int64_t> cgroup = cgroup_kills();
  std::optional<int64_t> machine = machine_kills();
};

struct HostKill {
  bool killed = false;     // for memory, by the counters or, where there are none, by the signal
  bool in_cgroup = false;  // the cgroup's limit, not the machine's memory
  bool certain = false;
  int64_t limit_bytes = 0;  // of the cgroup
  std::string limit_source;
  int64_t largest_process_bytes = 0;
};

inline HostKill judge_kill(const KillCounts& before, const KillCounts& after, int signal, int64_t largest_process) {
  const auto rose = [](const std::optional<int64_t>& then, const std::optional<int64_t>& now) {
    return then && now && *now > *then;
  };
  HostKill kill;
  kill.largest_process_bytes = largest_process;
  kill.in_cgroup = rose(before.cgroup, after.cgroup);
  kill.certain = kill.in_cgroup || (signal == SIGKILL && rose(before.machine, after.machine));
  kill.killed = kill.certain || (signal == SIGKILL && !before.cgroup && !before.machine);
  if (!kill.killed) return kill;
  for (const Limit& limit : machine_limits()) {
    if (!limit.source.starts_with("cgroup") || (kill.limit_bytes != 0 && limit.bytes >= kill.limit_bytes)) continue;
    kill.limit_bytes = limit.bytes;
    kill.limit_source = limit.source;
  }
  return kill;
}

inline std::string text_of(const HostKill& kill) {
  std::string text;
  if (kill.in_cgroup) {
    text = "host memory: the kernel killed a process of this run, because its memory cgroup reached its limit\n";
  } else if (kill.certain) {
    text = "host memory: the kernel killed this run, because the machine ran out of memory\n";
  } else {
    text = "host memory: the run was killed (SIGKILL); the kernel does not tell here whether that was for memory\n";
  }
  if (!kill.limit_source.empty()) {
    text += fmt::format("  limit: {} ({} of it left now that the run is over)\n", kill.limit_source,
                        format_bytes(kill.limit_bytes));
  }
  text += fmt::format("  the largest process of the run held {} of RAM\n", format_bytes(kill.largest_process_bytes));
  text +=
      "  what helps: fewer DataLoader workers (each holds its own batches), a smaller prefetch_factor, "
      "pin_memory=False,\n"
      "  datasets read in place (np.load(mmap_mode='r')) instead of lists of Python objects, or a larger limit\n";
  return text;
}

}  // namespace plimsoll::cli

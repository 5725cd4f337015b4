#include "plimsoll/memory/kernel_kills.h"

#include <csignal>
#include <fstream>

#include "plimsoll/memory/limits.h"

namespace plimsoll {

std::optional<int64_t> cgroup_kills(const std::string& root) {
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

std::optional<int64_t> machine_kills(const std::string& root) {
  std::ifstream file(root + "/proc/vmstat");
  std::string name;
  for (int64_t count = 0; file >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return std::nullopt;
}

KernelKill judge_kill(const KillCounts& before, const KillCounts& after, int signal, int64_t largest_process_bytes) {
  const auto rose = [](const std::optional<int64_t>& then, const std::optional<int64_t>& now) {
    return then && now && *now > *then;
  };
  KernelKill kill;
  kill.largest_process_bytes = largest_process_bytes;
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

}  // namespace plimsoll

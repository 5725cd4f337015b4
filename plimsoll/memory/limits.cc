#include "plimsoll/memory/limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kUnlimited = INT64_MAX / 2;  // cgroup v1 writes a number near 2^63 for "no limit"

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> read_number(const std::string& path) {
  const std::string text = read_file(path);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value >= kUnlimited) return std::nullopt;  // "max", or no such file
  return value;
}

// The number after `key` at the start of a line: of /proc/meminfo ("MemAvailable:  123 kB") or memory.stat.
std::optional<int64_t> field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t digit = line.find_first_of("0123456789", key.size());
    if (digit == std::string::npos) return std::nullopt;
    int64_t value = 0;
    std::from_chars(line.data() + digit, line.data() + line.size(), value);
    return value;
  }
  return std::nullopt;
}

struct Hierarchy {
  const char* version;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // in memory.stat: file cache that the kernel drops before it kills
};
constexpr Hierarchy kV1 = {"v1", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr Hierarchy kV2 = {"v2", "memory.max", "memory.current", "inactive_file "};

// The limits of `group` and of all groups above it, mounted at `mount`.
void add_ancestry(const Hierarchy& kind, const std::string& mount, std::string group, std::vector<Limit>& limits) {
  for (;;) {
    const std::string folder = mount + (group == "/" ? "" : group) + "/";
    if (const auto limit = read_number(folder + kind.limit)) {
      const int64_t usage = read_number(folder + kind.usage).value_or(0);
      const int64_t cache = field(read_file(folder + "memory.stat"), kind.reclaimable).value_or(0);
      const int64_t left = std::max<int64_t>(0, *limit - std::max<int64_t>(0, usage - cache));
      limits.push_back({left, fmt::format("cgroup {} {} {}", kind.version, group, kind.limit)});
    }
    if (group == "/") return;
    group.resize(group.rfind('/'));
    if (group.empty()) group = "/";
  }
}

void add_cgroups(const std::string& root, std::vector<Limit>& limits) {
  std::istringstream lines(read_file(root + "/proc/self/cgroup"));
  const std::string mounts = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/jobs/7", "0::/user.slice"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (!group.starts_with('/')) continue;
    if (controllers.find(",memory,") != std::string::npos) {
      add_ancestry(kV1, mounts + "/memory", group, limits);
    } else if (controllers == ",,") {
      add_ancestry(kV2, mounts, group, limits);
      add_ancestry(kV2, mounts + "/unified", group, limits);  // where both versions are mounted
    }
  }
}

void add_rlimit(int resource, const char* name, int64_t in_use, std::vector<Limit>& limits) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const auto bytes = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
  limits.push_back({std::max<int64_t>(0, bytes - in_use), name});
}

}  // namespace

std::vector<Limit> machine_limits(const std::string& root) {
  std::vector<Limit> limits;
  add_cgroups(root, limits);
  const std::string status = read_file(root + "/proc/self/status");
  add_rlimit(RLIMIT_AS, "RLIMIT_AS", field(status, "VmSize:").value_or(0) * kKiB, limits);
  add_rlimit(RLIMIT_DATA, "RLIMIT_DATA", field(status, "VmData:").value_or(0) * kKiB, limits);
  const auto available_kib = field(read_file(root + "/proc/meminfo"), "MemAvailable:");
  if (available_kib) limits.push_back({*available_kib * kKiB, "MemAvailable"});
  return limits;
}

Budget machine_budget(const std::string& root) {
  const std::vector<Limit> limits = machine_limits(root);
  const auto least =
      std::min_element(limits.begin(), limits.end(), [](const Limit& a, const Limit& b) { return a.bytes < b.bytes; });
  if (least == limits.end()) throw SystemError("this system tells no memory limit; give a budget in bytes");
  return {least->bytes, least->source};
}

Budget parse_budget(std::string_view text, std::string_view source, const std::string& root) {
  const Budget machine = machine_budget(root);
  if (text == "auto") return machine;
  const int64_t bytes = parse_bytes(text);
  if (bytes == 0) throw ArgumentError(fmt::format("{} is zero: expected a size like 2GiB, or auto", source));
  if (bytes > machine.bytes) {
    throw ArgumentError(fmt::format("{} is {}, but this machine has {} to give ({}); lower it, or say auto", source,
                                    format_bytes(bytes), format_bytes(machine.bytes), machine.source));
  }
  return {bytes, std::string(source)};
}

}  // namespace plimsoll

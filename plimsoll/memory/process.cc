#include "plimsoll/memory/process.h"

#include <malloc.h>

#include <fstream>
#include <string_view>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

// "RssAnon:     123 kB"
int64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * kKiB;
  }
  return 0;
}

// Nothing for "max", for cgroup v1's number near 2^63, and for a file that is not there.
std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number) || number >= INT64_MAX / 2) return std::nullopt;
  return number;
}

std::optional<int64_t> peak_of(const std::string& group, const char* limit, const char* peak) {
  if (!read_number(group + limit)) return std::nullopt;
  return read_number(group + peak);
}

}  // namespace

int64_t overhead_bytes() { return status_bytes("RssAnon:") + status_bytes("RssFile:"); }

int64_t process_peak_bytes() { return status_bytes("VmHWM:"); }

void restart_process_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::optional<int64_t> cgroup_peak_bytes(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/jobs/7", "0::/user.slice"
    const size_t v1 = line.find(":memory:");
    if (v1 != std::string::npos) {
      return peak_of(root + "/sys/fs/cgroup/memory" + line.substr(v1 + 8) + "/", "memory.limit_in_bytes",
                     "memory.max_usage_in_bytes");
    }
    if (!line.starts_with("0::")) continue;
    if (const auto peak = peak_of(root + "/sys/fs/cgroup" + line.substr(3) + "/", "memory.max", "memory.peak")) {
      return peak;
    }
  }
  return std::nullopt;
}

void trim_heap() { malloc_trim(0); }

}  // namespace plimsoll

#include "plimsoll/memory/process.h"

#include <link.h>
#include <malloc.h>

#include <fstream>
#include <iterator>
#include <string_view>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

std::string read_status() {
  std::ifstream file("/proc/self/status");
  return {std::istreambuf_iterator<char>(file), {}};
}

// "RssAnon:     123 kB"
int64_t status_bytes(const std::string& status, std::string_view key) {
  const size_t place = status.find(key);
  return place == std::string::npos ? 0 : std::stoll(status.substr(place + key.size())) * kKiB;
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

ProcessMemory process_memory() {
  const std::string status = read_status();
  return {status_bytes(status, "\nRssAnon:"), status_bytes(status, "\nRssFile:"), status_bytes(status, "\nVmPTE:")};
}

int64_t code_bytes() {
  int64_t bytes = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* sum) {
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& segment = object->dlpi_phdr[i];
          if (segment.p_type == PT_LOAD) *static_cast<int64_t*>(sum) += static_cast<int64_t>(segment.p_filesz);
        }
        return 0;
      },
      &bytes);
  return bytes;
}

int64_t process_peak_bytes() { return status_bytes(read_status(), "\nVmHWM:"); }

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

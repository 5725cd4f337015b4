// Memory cgroups for tests: a limit that the kernel enforces.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace plimsoll {

// A new memory cgroup below this process's own, gone at the end.
class MemoryGroup {
 public:
  static std::optional<std::filesystem::path> folder_for_groups() {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
      const size_t memory = line.find(":memory:");
      if (memory != std::string::npos) return "/sys/fs/cgroup/memory" + line.substr(memory + 8);
      if (line.starts_with("0::") && std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers")) {
        return "/sys/fs/cgroup" + line.substr(3);
      }
    }
    return std::nullopt;
  }

  MemoryGroup(const std::filesystem::path& parent, int64_t limit_bytes)
      : path_(parent / ("plimsoll_test_" + std::to_string(getpid()))) {
    std::error_code error;
    std::filesystem::create_directory(path_, error);
    const std::string bytes = std::to_string(limit_bytes);
    works_ = !error && (write(path_ / "memory.limit_in_bytes", bytes) || write(path_ / "memory.max", bytes));
    write(path_ / "memory.swap.max", "0");
  }
  ~MemoryGroup() { rmdir(path_.c_str()); }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool works() const { return works_; }
  bool enter() const { return write(path_ / "cgroup.procs", std::to_string(getpid())); }
  const std::filesystem::path& path() const { return path_; }

  // The most that it ever held; 0 where the kernel does not tell.
  int64_t peak_bytes() const {
    int64_t peak = 0;
    for (const char* name : {"memory.max_usage_in_bytes", "memory.peak"}) {
      std::ifstream file(path_ / name);
      file >> peak;
      if (file) return peak;
    }
    return 0;
  }

 private:
  static bool write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  }

  std::filesystem::path path_;
  bool works_ = false;
};

}  // namespace plimsoll

#include "plimsoll/memory/process_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

constexpr double kWindowSeconds = 30;
constexpr double kLeastSeconds = 1;  // that a slope is worth something
constexpr double kLongestForecast = 3600;
constexpr int64_t kUnlimited = INT64_MAX / 2;  // cgroup v1 writes a number near 2^63 for "no limit"

// As far as it can be read: a process that ends meanwhile makes reading fail, which an istreambuf_iterator would throw.
std::string text_of(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number after `key` at the start of a line; 0 where there is none.
int64_t number_after(const std::string& text, std::string_view key) {
  const size_t place = text.starts_with(key) ? 0 : text.find(fmt::format("\n{}", key));
  if (place == std::string::npos) return 0;
  const size_t digit = text.find_first_of("0123456789", place + key.size());
  return digit == std::string::npos ? 0 : std::strtoll(text.c_str() + digit, nullptr, 10);
}

void add_process(pid_t pid, const std::string& root, TreeMemory& sum) {
  const std::string folder = fmt::format("{}/proc/{}", root, pid);
  const std::string status = text_of(folder + "/status");
  if (status.empty()) return;
  const std::string rollup = text_of(folder + "/smaps_rollup");
  ++sum.processes;
  sum.rss_bytes += number_after(status, "VmRSS:") * kKiB;
  sum.pss_bytes += number_after(rollup, "Pss:") * kKiB;
  sum.shared_bytes += number_after(status, "RssShmem:") * kKiB;
  sum.swapped_bytes += number_after(status, "VmSwap:") * kKiB;
}

// A child may have been started by any thread.
std::vector<pid_t> children_of(pid_t pid, const std::string& root) {
  std::vector<pid_t> children;
  std::error_code gone;
  const std::filesystem::path tasks(fmt::format("{}/proc/{}/task", root, pid));
  for (std::filesystem::directory_iterator it(tasks, gone), end; !gone && it != end; it.increment(gone)) {
    std::istringstream numbers(text_of(it->path().string() + "/children"));
    children.insert(children.end(), std::istream_iterator<pid_t>(numbers), {});
  }
  return children;
}

struct Hierarchy {
  std::string_view version;
  std::string_view limit;
  std::string_view usage;
  std::string_view reclaimable;  // of memory.stat
  std::string_view cache;        // of memory.stat
};
constexpr Hierarchy kV1 = {"v1", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
                           "total_cache "};
constexpr Hierarchy kV2 = {"v2", "memory.max", "memory.current", "inactive_file ", "file "};

int64_t number_in(const std::string& path) {
  const std::string text = text_of(path);
  return text.empty() || text[0] < '0' || text[0] > '9' ? kUnlimited : std::strtoll(text.c_str(), nullptr, 10);
}

// Keeps in `use` what has the least left, of a group and those above it.
void consider_groups(const Hierarchy& kind, const std::string& mount, std::string group, LimitUse& use) {
  while (true) {
    const std::string folder = mount + (group == "/" ? "" : group) + "/";
    const int64_t limit = number_in(folder + std::string(kind.limit));
    if (limit < kUnlimited) {
      const std::string stat = text_of(folder + "memory.stat");
      const int64_t usage = number_in(folder + std::string(kind.usage));
      const int64_t used = std::max<int64_t>(0, usage - number_after(stat, kind.reclaimable));
      if (usage < kUnlimited && (use.limit_bytes == 0 || limit - used < use.limit_bytes - use.used_bytes)) {
        use = {used, limit, number_after(stat, kind.cache), fmt::format("cgroup {} {}", kind.version, group)};
      }
    }
    if (group == "/" || group.empty()) return;
    group.resize(group.rfind('/'));
    if (group.empty()) group = "/";
  }
}

}  // namespace

TreeMemory tree_memory(pid_t pid, const std::string& root) {
  TreeMemory sum;
  std::vector<pid_t> waiting = {pid};
  while (!waiting.empty()) {
    const pid_t next = waiting.back();
    waiting.pop_back();
    add_process(next, root, sum);
    const auto children = children_of(next, root);
    waiting.insert(waiting.end(), children.begin(), children.end());
  }
  return sum;
}

LimitUse limit_use(pid_t pid, const std::string& root) {
  const std::string machine = text_of(root + "/proc/meminfo");
  const int64_t total = number_after(machine, "MemTotal:") * kKiB;
  LimitUse use{total - number_after(machine, "MemAvailable:") * kKiB, total, number_after(machine, "Cached:") * kKiB,
               "RAM of this machine"};
  std::istringstream lines(text_of(fmt::format("{}/proc/{}/cgroup", root, pid)));
  const std::string mounts = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/jobs/7", "0::/user.slice"
    const size_t memory = line.find(":memory:/");
    if (memory != std::string::npos) consider_groups(kV1, mounts + "/memory", line.substr(memory + 8), use);
    if (line.starts_with("0::/")) consider_groups(kV2, mounts, line.substr(3), use);
  }
  return use;
}

void Trend::add(double time, int64_t bytes) {
  points_.push_back({time, static_cast<double>(bytes)});
  while (points_.front().time < time - kWindowSeconds) points_.pop_front();
}

double Trend::bytes_per_second() const {
  if (points_.size() < 3 || points_.back().time - points_.front().time < kLeastSeconds) return 0;
  double time = 0;
  double bytes = 0;
  for (const Point& point : points_) {
    time += point.time / static_cast<double>(points_.size());
    bytes += point.bytes / static_cast<double>(points_.size());
  }
  double together = 0;
  double spread = 0;
  for (const Point& point : points_) {
    together += (point.time - time) * (point.bytes - bytes);
    spread += (point.time - time) * (point.time - time);
  }
  return spread > 0 ? together / spread : 0;
}

std::optional<double> Trend::seconds_until(int64_t limit) const {
  const double slope = bytes_per_second();
  if (points_.empty() || limit <= 0 || slope < static_cast<double>(kKiB)) return std::nullopt;
  const double seconds = std::max(0.0, static_cast<double>(limit) - points_.back().bytes) / slope;
  return seconds < kLongestForecast ? std::optional(seconds) : std::nullopt;
}

}  // namespace plimsoll

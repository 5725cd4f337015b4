// Linux: the out-of-memory killer's report, of the whole machine or of one cgroup. Its kill line counts kB, its task
// table pages.
#include <algorithm>
#include <sstream>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kMostPages = int64_t{1} << 38;  // a pebibyte

// "164992kB" in the kernel's sense: 1024 bytes.
OptionalBytes kilobytes_after(std::string_view line, std::string_view marker) {
  const auto count = integer_after(line, marker);
  return count && *count >= 0 && *count < kMostPages ? OptionalBytes(*count * kKiB) : std::nullopt;
}

std::optional<Failure> start(std::string_view line) {
  Failure failure;
  failure.framework = Framework::kernel;
  failure.backend = Backend::cpu;
  failure.arena = Arena::host;
  const size_t invoked = line.find(" invoked oom-killer:");
  const bool kill = contains(line, "ut of memory: Kill");
  if (invoked != std::string_view::npos) {
    const std::string_view before = line.substr(0, invoked);
    failure.subject = before.substr(before.find_last_of(" ]:") + 1);
    return failure;
  }
  if (!kill && !contains(line, "oom-kill:constraint=")) return std::nullopt;
  kKernelForm.add(line, failure);
  return failure;
}

bool add_kill(std::string_view line, Failure& failure) {
  if (!contains(line, "Kill process ") && !contains(line, "Killed process ")) return false;
  if (contains(line, "Memory cgroup out of memory")) failure.arena = Arena::cgroup;
  const auto name = between(line, "(", ")");
  auto pid = integer_after(line, "Killed process ");
  if (!pid) pid = integer_after(line, "Kill process ");
  failure.subject = std::string(name.value_or("")) + (pid ? " (pid " + std::to_string(*pid) + ")" : "");
  failure.process_bytes = kilobytes_after(line, "anon-rss:");
  if (failure.process_bytes) {
    *failure.process_bytes += kilobytes_after(line, "file-rss:").value_or(0);
    *failure.process_bytes += kilobytes_after(line, "shmem-rss:").value_or(0);
    failure.holders = {{"anonymous", kilobytes_after(line, "anon-rss:").value_or(0)},
                       {"file", kilobytes_after(line, "file-rss:").value_or(0)},
                       {"shared", kilobytes_after(line, "shmem-rss:").value_or(0)}};
  }
  return true;
}

// "memory: usage 1048576kB, limit 1048576kB, failcnt 141"
bool add_cgroup(std::string_view line, Failure& failure) {
  const bool constraint = contains(line, "oom-kill:constraint=");
  if (contains(line, "CONSTRAINT_MEMCG")) failure.arena = Arena::cgroup;
  if (constraint && failure.subject.empty()) failure.subject = between(line, "task=", ",").value_or("");
  if (constraint) return true;
  if (!contains(line, "memory: usage ")) return false;
  failure.allocated_bytes = kilobytes_after(line, "memory: usage ");
  failure.allowed_bytes = kilobytes_after(line, "limit ");
  failure.arena = Arena::cgroup;
  return true;
}

// "[  19289]     0 19289   787367    41248   1404928        0           986 python3": pages of total_vm and rss.
bool add_task(std::string_view line, Failure& failure) {
  const size_t open = line.rfind("[ ");
  const auto pid = open == std::string_view::npos ? std::nullopt : leading_integer(line.substr(open + 1));
  const size_t close = line.find(']', open == std::string_view::npos ? 0 : open);
  if (!pid || close == std::string_view::npos) return false;
  std::istringstream columns{std::string(line.substr(close + 1))};
  int64_t uid = 0;
  int64_t group = 0;
  int64_t virtual_pages = 0;
  int64_t resident_pages = 0;
  if (!(columns >> uid >> group >> virtual_pages >> resident_pages) || resident_pages < 0) return false;
  const int64_t bytes = std::min(resident_pages, kMostPages) * kPage;
  const std::string_view name = trim(line.substr(line.find_last_of(' ') + 1));
  if (failure.processes.size() < 1000) {
    failure.processes.push_back({std::string(name) + " (pid " + std::to_string(*pid) + ")", bytes});
  }
  return true;
}

bool add(std::string_view line, Failure& failure) {
  return add_kill(line, failure) || add_cgroup(line, failure) || add_task(line, failure) ||
         contains(line, "Mem-Info:") || contains(line, "memory cgroup stats") || contains(line, "Tasks state");
}

}  // namespace

const MessageForm kKernelForm = {start, add};

}  // namespace plimsoll::explain

// A budget that the kernel enforces too: a process in a memory cgroup whose limit is the budget and a little for the
// process itself fills its pool to the last byte and meets ResourceExhausted, not the OOM killer.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/pool.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBudget = 64 * kMiB;
constexpr int64_t kOverhead = 16 * kMiB;  // the process beside its pool, and the kernel's own for it

bool write(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

// A new memory cgroup below this process's own, gone at the end.
class MemoryGroup {
 public:
  static std::optional<fs::path> folder_for_groups() {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
      const size_t memory = line.find(":memory:");
      if (memory != std::string::npos) return "/sys/fs/cgroup/memory" + line.substr(memory + 8);
      if (line.starts_with("0::") && fs::exists("/sys/fs/cgroup/cgroup.controllers")) {
        return "/sys/fs/cgroup" + line.substr(3);
      }
    }
    return std::nullopt;
  }

  explicit MemoryGroup(const fs::path& parent) : path_(parent / ("plimsoll_test_" + std::to_string(getpid()))) {
    std::error_code error;
    fs::create_directory(path_, error);
    const std::string bytes = std::to_string(kBudget + kOverhead);
    works_ = !error && (write(path_ / "memory.limit_in_bytes", bytes) || write(path_ / "memory.max", bytes));
    write(path_ / "memory.swap.max", "0");
  }
  ~MemoryGroup() { rmdir(path_.c_str()); }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool works() const { return works_; }
  bool enter() const { return write(path_ / "cgroup.procs", std::to_string(getpid())); }

 private:
  fs::path path_;
  bool works_ = false;
};

// In the child. Exit codes tell the parent what happened.
enum Exit { kGood = 0, kNotEntered = 1, kTooEarly = 2, kNoLimit = 3, kNotAfterwards = 4 };

Exit fill_pool_to_its_limit() {
  FilePages pages = FilePages::host(64 * kKiB);
  trace::Recorder recorder(0);
  Pool pool(pages, {kBudget, "test"}, recorder);
  constexpr int64_t kBlock = kMiB;
  std::vector<Block> blocks;
  for (int round = 0; round < 3; ++round) {
    for (int64_t bytes = 0; bytes < kBudget; bytes += kBlock) {
      try {
        blocks.push_back(pool.allocate(kBlock));
      } catch (const ResourceExhausted&) {
        return kTooEarly;
      }
      std::memset(blocks.back().data, round + 1, kBlock);
    }
    try {
      pool.allocate(1);
      return kNoLimit;
    } catch (const ResourceExhausted&) {
      for (const Block& block : blocks) pool.free(block);
      blocks.clear();
    }
    if (round == 1) pool.trim();
  }
  const Block whole = pool.allocate(kBudget);
  std::memset(whole.data, 9, kBudget);
  pool.free(whole);
  return pool.stats().live_bytes == 0 ? kGood : kNotAfterwards;
}

TEST(PoolInACgroup, FillsItsBudgetAndIsNotKilled) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would not fit in the group";
  const auto parent = MemoryGroup::folder_for_groups();
  if (!parent) GTEST_SKIP() << "no memory cgroups on this machine";
  const MemoryGroup group(*parent);
  if (!group.works()) GTEST_SKIP() << "no memory cgroup can be made in " << *parent;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(group.enter() ? fill_pool_to_its_limit() : kNotEntered);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_FALSE(WIFSIGNALED(status)) << "killed by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNotEntered) GTEST_SKIP() << "the group cannot be entered";
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

}  // namespace
}  // namespace plimsoll

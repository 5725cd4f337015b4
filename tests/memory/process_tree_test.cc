#include "plimsoll/memory/process_tree.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "plimsoll/base/bytes.h"
#include "tests/memory/temp_folder.h"

namespace plimsoll {
namespace {

// A child that takes `bytes` for every byte it is sent.
class Grower {
 public:
  explicit Grower(size_t bytes) {
    int ask[2];
    int answer[2];
    EXPECT_EQ(pipe(ask), 0);
    EXPECT_EQ(pipe(answer), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ask[1]);
      char byte = 0;
      while (read(ask[0], &byte, 1) == 1) {
        void* taken = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        std::memset(taken, 1, bytes);
        if (::write(answer[1], &byte, 1) != 1) break;
      }
      _exit(0);
    }
    close(ask[0]);
    close(answer[1]);
    ask_ = ask[1];
    answer_ = answer[0];
  }
  ~Grower() {
    close(ask_);
    close(answer_);
    waitpid(pid_, nullptr, 0);
  }
  Grower(const Grower&) = delete;
  Grower& operator=(const Grower&) = delete;

  void grow() const {
    char byte = 1;
    EXPECT_EQ(::write(ask_, &byte, 1), 1);
    EXPECT_EQ(read(answer_, &byte, 1), 1);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int ask_ = -1;
  int answer_ = -1;
};

TEST(ProcessTree, SeesAChildGrow) {
  constexpr int64_t kStep = 16 * kMiB;
  const Grower child(kStep);
  const TreeMemory alone = tree_memory(child.pid());
  const TreeMemory both = tree_memory(getpid());
  EXPECT_EQ(alone.processes, 1);
  EXPECT_GE(both.processes, 2);
  for (int64_t step = 1; step <= 3; ++step) {
    child.grow();
    EXPECT_GE(tree_memory(child.pid()).rss_bytes - alone.rss_bytes, step * kStep);
    EXPECT_GE(tree_memory(getpid()).rss_bytes - both.rss_bytes, step * kStep - kMiB);
    if (alone.pss_bytes > 0) {
      EXPECT_GE(tree_memory(child.pid()).pss_bytes - alone.pss_bytes, step * kStep - kMiB);
    }
  }
}

TEST(ProcessTree, IsEmptyOfAProcessThatIsGone) {
  pid_t gone = 0;
  {
    const Grower child(1);
    gone = child.pid();
  }
  EXPECT_EQ(tree_memory(gone).processes, 0);
}

TEST(LimitUse, IsTheGroupWithTheLeastLeft) {
  const TempFolder folder;
  const std::string& root = folder.path();
  folder.write("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 6000 kB\nCached: 500 kB\n");
  folder.write("proc/7/cgroup", "0::/jobs/7\n");
  EXPECT_EQ(limit_use(7, root).source, "RAM of this machine");
  EXPECT_EQ(limit_use(7, root).used_bytes, 2000 * kKiB);
  folder.write("sys/fs/cgroup/jobs/7/memory.max", "max\n");
  folder.write("sys/fs/cgroup/jobs/memory.max", "1000000\n");
  folder.write("sys/fs/cgroup/jobs/memory.current", "900000\n");
  folder.write("sys/fs/cgroup/jobs/memory.stat", "anon 1\nfile 250000\ninactive_file 200000\n");
  const LimitUse use = limit_use(7, root);
  EXPECT_EQ(use.source, "cgroup v2 /jobs");
  EXPECT_EQ(use.used_bytes, 700000);
  EXPECT_EQ(use.limit_bytes, 1000000);
  EXPECT_EQ(use.page_cache_bytes, 250000);
}

TEST(LimitUse, ReadsTheFirstVersionOfCgroups) {
  const TempFolder folder;
  const std::string& root = folder.path();
  folder.write("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 6000 kB\n");
  folder.write("proc/7/cgroup", "5:cpu:/\n4:memory:/a\n");
  folder.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096000\n");
  folder.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4000000\n");
  folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const LimitUse use = limit_use(7, root);
  EXPECT_EQ(use.source, "cgroup v1 /a");
  EXPECT_EQ(use.used_bytes, 4000000);
}

TEST(Trend, TellsWhenTheLimitIsReached) {
  Trend trend;
  EXPECT_EQ(trend.seconds_until(kGiB), std::nullopt);
  for (int second = 0; second < 60; ++second) trend.add(second, second < 40 ? 0 : (second - 39) * 10 * kMiB);
  // The line goes through the last half minute, of which the first part is flat.
  EXPECT_GT(trend.bytes_per_second(), 4.0 * kMiB);
  for (int second = 60; second < 100; ++second) trend.add(second, (second - 39) * 10 * kMiB);
  EXPECT_NEAR(trend.bytes_per_second(), 10.0 * kMiB, 1);
  EXPECT_NEAR(*trend.seconds_until(600 * kMiB + 100 * kMiB), 10, 1e-6);
  EXPECT_NEAR(*trend.seconds_until(kMiB), 0, 1e-6);
  EXPECT_EQ(trend.seconds_until(100'000 * kGiB), std::nullopt);
}

}  // namespace
}  // namespace plimsoll

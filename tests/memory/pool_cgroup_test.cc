// A budget that the kernel enforces too: a process in a memory cgroup whose limit is the budget and a little for the
// process itself fills its pool to the last byte and meets ResourceExhausted, not the OOM killer.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/pool.h"
#include "tests/memory/memory_group.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

constexpr int64_t kBudget = 64 * kMiB;
constexpr int64_t kOverhead = 16 * kMiB;  // the process beside its pool, and the kernel's own for it

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
  const MemoryGroup group(*parent, kBudget + kOverhead);
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

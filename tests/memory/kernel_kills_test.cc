#include "plimsoll/memory/kernel_kills.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/memory/temp_folder.h"

namespace plimsoll {
namespace {

TEST(KernelKills, CountsThoseOfTheCgroupInBothForms) {
  const TempFolder second;
  second.write("proc/self/cgroup", "0::/job\n");
  second.write("sys/fs/cgroup/job/memory.events", "low 0\nhigh 2\noom 3\noom_kill 1\n");
  EXPECT_EQ(cgroup_kills(second.path()), 1);
  const TempFolder first;
  first.write("proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
  first.write("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
  EXPECT_EQ(cgroup_kills(first.path()), 7);
  first.write("proc/vmstat", "nr_free_pages 12\noom_kill 9\n");
  EXPECT_EQ(machine_kills(first.path()), 9);
  EXPECT_EQ(machine_kills(second.path()), std::nullopt);
  EXPECT_EQ(cgroup_kills("/nowhere"), std::nullopt);
}

TEST(KernelKills, JudgesBySignalAloneOnlyWhereNothingIsCounted) {
  const KillCounts counted{.cgroup = 1, .machine = 4};
  EXPECT_FALSE(judge_kill(counted, counted, SIGKILL, 0).killed);
  EXPECT_FALSE(judge_kill(counted, {.cgroup = 1, .machine = 5}, 0, 0).killed);  // another process of the machine
  const KernelKill machine = judge_kill(counted, {.cgroup = 1, .machine = 5}, SIGKILL, 0);
  EXPECT_TRUE(machine.killed && machine.certain && !machine.in_cgroup);
  const KernelKill cgroup = judge_kill(counted, {.cgroup = 2, .machine = 5}, 0, 12);
  EXPECT_TRUE(cgroup.killed && cgroup.certain && cgroup.in_cgroup);
  EXPECT_EQ(cgroup.largest_process_bytes, 12);
  const KillCounts unknown{.cgroup = std::nullopt, .machine = std::nullopt};
  const KernelKill guessed = judge_kill(unknown, unknown, SIGKILL, 0);
  EXPECT_TRUE(guessed.killed && !guessed.certain);
}

}  // namespace
}  // namespace plimsoll

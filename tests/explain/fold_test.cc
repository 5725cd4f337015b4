#include "plimsoll/explain/fold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/explain.h"

namespace plimsoll::explain {
namespace {

Explanation explain_text(std::string_view log) {
  Input input;
  input.log = read_log(*open_memory(log, "log"));
  return explain(input, "log");
}

std::string oom(int gpu, std::string_view requested, std::string_view free) {
  return fmt::format(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of 79.11 GiB of "
      "which {} is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated "
      "memory "
      "75.30 GiB is allocated by PyTorch, and 661.90 MiB is reserved by PyTorch but unallocated.\n",
      requested, gpu, free);
}

TEST(Fold, RanksOfOneJobAreOneDiagnosis) {
  std::string log;
  for (int rank = 0; rank < 8; ++rank) {
    log += fmt::format("[rank{}]: {}", rank, oom(rank, "1.96 GiB", fmt::format("{}.00 MiB", 900 + rank)));
  }
  const Explanation explanation = explain_text(log);
  ASSERT_EQ(explanation.diagnoses.size(), 1u);
  EXPECT_EQ(explanation.diagnoses[0].occurrences, 8);
  EXPECT_EQ(ranks_text(explanation.diagnoses[0].ranks), "ranks 0-7");
}

TEST(Fold, DifferentRequestsStayApart) {
  const Explanation explanation =
      explain_text("[rank0]: " + oom(0, "1.96 GiB", "1.00 GiB") + "[rank1]: " + oom(1, "3.00 GiB", "1.00 GiB"));
  EXPECT_EQ(explanation.diagnoses.size(), 2u);
}

TEST(Fold, AKillIsToldOnceByWhoKnowsMost) {
  const Explanation explanation = explain_text(
      "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 2 (pid: 40) of binary: "
      "py\n"
      "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.\n"
      "[1.5] Memory cgroup out of memory: Killed process 40 (python) total-vm:9000000kB, anon-rss:2080000kB, "
      "file-rss:12000kB, shmem-rss:0kB\n");
  ASSERT_EQ(explanation.diagnoses.size(), 1u);
  EXPECT_EQ(explanation.diagnoses[0].framework, Framework::kernel);
  EXPECT_EQ(explanation.diagnoses[0].cause, Cause::cgroup_limit);
}

TEST(Fold, KillsOfOneProgramAreOneDiagnosis) {
  const auto kill = [](int pid, std::string_view name) {
    return fmt::format(
        "[{}.5] Memory cgroup out of memory: Killed process {} ({}) total-vm:9000000kB, anon-rss:{}kB, "
        "file-rss:0kB, shmem-rss:0kB\n",
        pid, pid, name, 4000 + pid);
  };
  const Explanation same = explain_text(kill(40, "python3") + kill(41, "python3") + kill(42, "python3"));
  ASSERT_EQ(same.diagnoses.size(), 1u);
  EXPECT_EQ(same.diagnoses[0].occurrences, 3);
  EXPECT_EQ(explain_text(kill(40, "python3") + kill(41, "java")).diagnoses.size(), 2u);
}

TEST(Fold, RanksReadAsRanges) {
  EXPECT_EQ(ranks_text({"rank0", "rank1", "rank2", "rank5"}), "ranks 0-2, 5");
  EXPECT_EQ(ranks_text({"1,0", "1,1"}), "ranks 0-1");
  EXPECT_EQ(ranks_text({"Worker pid=12, ip=a", "b"}), "Worker pid=12, ip=a, b");
}

}  // namespace
}  // namespace plimsoll::explain

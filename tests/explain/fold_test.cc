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

// As mpirun passes it on, of a run of several ranks.
TEST(Fold, RanksOfOurOwnRunAreOneDiagnosis) {
  std::string log = "4 ranks, 3 of 12 samples each; rank 0 has\nstep 1  loss 2.337758  79.2 ms\n";
  for (const int rank : {1, 2, 3}) {
    log += fmt::format("plimsoll: rank {}: the system gives this process no more memory\n", rank);
  }
  log += "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n";
  const Explanation explanation = explain_text(log);
  ASSERT_EQ(explanation.diagnoses.size(), 1u);
  EXPECT_EQ(explanation.diagnoses[0].framework, Framework::plimsoll);
  EXPECT_EQ(explanation.diagnoses[0].cause, Cause::host_memory);
  EXPECT_EQ(explanation.diagnoses[0].occurrences, 3);
  EXPECT_EQ(ranks_text(explanation.diagnoses[0].ranks), "ranks 1-3");
}

TEST(Fold, ARefusalOfOurOwnIsToldWithItsBudget) {
  const Explanation explanation = explain_text(
      "plimsoll: lenet does not fit in 20.00 MiB\n"
      "  smallest budget: 30.39 MiB (31,870,976 bytes), of which 29.21 MiB for the process itself\n");
  ASSERT_EQ(explanation.diagnoses.size(), 1u);
  EXPECT_EQ(explanation.diagnoses[0].cause, Cause::cap_below_card);
  EXPECT_NE(explanation.diagnoses[0].headline.find("20.00 MiB"), std::string::npos)
      << explanation.diagnoses[0].headline;
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

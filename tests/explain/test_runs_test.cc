// Failures inside tests, and workers that died of something else.
#include "plimsoll/explain/test_runs.h"

#include <gtest/gtest.h>

#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

size_t failures(std::string_view text) { return read_log(*open_memory(text, "log")).failures.size(); }

TEST(TestRuns, WhatFailsInATestThatPassesIsNoFailure) {
  for (const char* log : {
           "[ RUN      ] Pool.Grows\n[RMM] [error] [A][Stream 0x1][FAILURE maximum pool size exceeded]\n"
           "[       OK ] Pool.Grows (12 ms)\n",
           "=== RUN   TestPool\nlevel=error msg=\"cudaMalloc failed: out of memory\"\n--- PASS: TestPool (0.02s)\n",
           "tests/test_pool.py::test_full RuntimeError: CUDA error: out of memory\nPASSED\n",
           "test_full (tests.test_pool.PoolTest) ... ERROR:pool:CUDA error: out of memory\nok\n",
           "[error] cudaMalloc failed: out of memory\nAll tests passed (14 assertions in 3 test cases)\n",
       }) {
    EXPECT_EQ(failures(log), 0u) << log;
  }
}

TEST(TestRuns, ATestThatFailsHasFailed) {
  for (const char* log : {
           "[ RUN      ] Pool.Grows\nCUDA error: out of memory\n[  FAILED  ] Pool.Grows (12 ms)\n",
           "[ RUN      ] A.B\n[       OK ] A.B (1 ms)\nCUDA error: out of memory\n[ RUN      ] A.C\n"
           "[       OK ] A.C (1 ms)\n",
           "=== RUN   TestPool\ncudaMalloc failed: out of memory\n--- FAIL: TestPool (0.02s)\n",
           "RuntimeError: CUDA error: out of memory\nok\n",
       }) {
    EXPECT_EQ(failures(log), 1u) << log;
  }
}

TEST(Workers, DieOfMemoryOnlyByTheSignalThatKills) {
  const std::string died =
      "TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated. This could be "
      "caused by a segmentation fault while calling the function or by an excessive memory usage causing the Operating "
      "System to kill the worker.";
  EXPECT_EQ(failures(died + "\n"), 1u);
  EXPECT_EQ(failures(died + "\n\nThe exit codes of the workers are {SIGKILL(-9)}\n"), 1u);
  EXPECT_EQ(failures(died + "\n\nThe exit codes of the workers are {SIGABRT(-6)}\n"), 0u);
  EXPECT_EQ(failures(died + " The exit codes of the workers are {SIGSEGV(-11)}\n"), 0u);
  EXPECT_EQ(failures("ERROR Lost task 4.0 (TID 41379): ExecutorLostFailure (executor 7 exited) heartbeat timed out\n"),
            0u);
}

}  // namespace
}  // namespace plimsoll::explain

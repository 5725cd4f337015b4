#include "plimsoll/explain/talk.h"

#include <gtest/gtest.h>

namespace plimsoll::explain {
namespace {

TEST(Talk, IsProseCodeListsAndTests) {
  for (const char* line : {
           "If you see `RuntimeError: CUDA error: out of memory`, reduce the batch size or restart the kernel.",
           "How to fix RuntimeError: CUDA error: out of memory",
           "- Fixed an issue where `CUDA error: out of memory` was raised while pinning",
           "a \"CUDA error: out of memory\" while pinning is host memory",
           "To avoid java.lang.OutOfMemoryError: Java heap space, set -Xmx to a larger value.",
           "When the pod shows Reason: OOMKilled, raise the limits of its container.",
           "Jobs that end with \"Out of memory: Killed process 1234 (python)\" in dmesg need more RAM.",
           "* Improve the message of CUBLAS_STATUS_ALLOC_FAILED",
           "The error `DataLoader worker (pid 12) is killed by signal: Bus error` usually means too little /dev/shm",
           "If vLLM says \"No available memory for the cache blocks\", increase gpu_memory_utilization.",
           "        raise RuntimeError(\"CUDA out of memory. Tried to allocate %s\" % size)",
           "    \"DefaultCPUAllocator: can't allocate memory\",  # CPU OOM",
           "    except RuntimeError as e:  # CUDA error: out of memory",
           "tests/test_oom.py::test_raises - RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB PASSED",
           "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB; falling back to the host",
       }) {
    EXPECT_TRUE(is_talk(line)) << line;
  }
}

TEST(Talk, IsNoReport) {
  for (const char* line : {
           "RuntimeError: CUDA error: out of memory",
           "Error occurred when training: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total)",
           "Failed to handle request: CUDA error: out of memory",
           "step 4 failed: \"CUDA out of memory. Tried to allocate 2.00 GiB\"",
           "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-tokens`",
           "{\"msg\":\"failed\",\"exc\":\"    raise RuntimeError(\\n  RuntimeError: CUDA out of memory. Tried to "
           "allocate\"}",
           "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch cgroup.",
           "Memory cgroup out of memory: Killed process 40 (python) total-vm:9000000kB",
           "- **Exception Message:** MPS backend out of memory (MPS allocated: 8.11 GB, other allocations: 3.11 MB)",
           "* Error Message: CUDA out of memory",
           "- MPS backend out of memory (MPS allocated: 8.1 GB, other allocations: 3.1 MB, max allowed: 9.1 GB)",
       }) {
    EXPECT_FALSE(is_talk(line)) << line;
  }
}

}  // namespace
}  // namespace plimsoll::explain

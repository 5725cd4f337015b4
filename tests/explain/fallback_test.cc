// The reader of last resort: what programs say that nobody knows, and what only sounds like it.
#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

LogFindings read(std::string_view text) { return read_log(*open_memory(text, "log")); }

Diagnosis only_diagnosis(std::string_view text) {
  const LogFindings findings = read(text);
  EXPECT_EQ(findings.failures.size(), 1u) << text;
  return findings.failures.empty() ? Diagnosis{} : diagnose(findings.failures[0]);
}

struct Saying {
  const char* line;
  Cause cause;
};

TEST(Fallback, TellsWhichMemoryTheWordsSpeakOf) {
  const Saying sayings[] = {
      {"frobnicator: fatal: could not allocate 4096 MiB of GPU memory", Cause::device_full},
      {"[ERROR] zork: vkAllocateMemory returned failure for a 12 MB buffer", Cause::device_full},
      {"zork.Error: the accelerator driver says: CUDA out of memory", Cause::unknown},
      {"zork.Error: not enough VRAM for the model", Cause::device_full},
      {"zork: error 14: CL_OUT_OF_RESOURCES", Cause::unknown},
      {"panic: zork: out of virtual memory", Cause::host_memory},
      {"ERROR zork.cc:12] malloc of 8589934592 bytes failed", Cause::host_memory},
      {"zorkd[12]: worker 3 was terminated: it used too much memory", Cause::host_memory},
      {"Error: job 12 exceeded its memory limit of 16 GiB and was killed", Cause::cgroup_limit},
      {"zork: error: memory limit of 2 GiB reached", Cause::cap_below_card},
      {"zork: error: cudaHostAlloc failed: out of memory", Cause::pinned_host_memory},
      {"zork: error: shm_open: cannot allocate memory in /dev/shm", Cause::shared_memory},
      {"zork: error: cusparseCreate failed to allocate memory", Cause::workspace},
      {"zork: error: tensor of 9 GB exceeds max alloc size of the device", Cause::request_too_large},
      {"RuntimeError: arena: failed to allocate 2088 bytes, available 1552", Cause::cap_below_card},
  };
  for (const Saying& saying : sayings) {
    const Diagnosis diagnosis = only_diagnosis(saying.line);
    EXPECT_EQ(diagnosis.cause, saying.cause) << saying.line << "\n  " << name(diagnosis.cause);
    EXPECT_NE(diagnosis.confidence, Confidence::high) << saying.line;
    EXPECT_EQ(diagnosis.framework, Framework::unknown) << saying.line;
    EXPECT_FALSE(diagnosis.remedies.empty()) << saying.line;
  }
}

TEST(Fallback, QuotesTheLineAndSaysWhatToCollect) {
  const Diagnosis diagnosis = only_diagnosis("zork: error: out of GPU memory");
  EXPECT_NE(diagnosis.headline.find("no reader knows"), std::string::npos);
  EXPECT_NE(diagnosis.headline.find("zork: error: out of GPU memory"), std::string::npos);
  const bool collects = std::any_of(diagnosis.remedies.begin(), diagnosis.remedies.end(),
                                    [](const Remedy& remedy) { return remedy.id.starts_with("collect."); });
  EXPECT_TRUE(collects);
}

TEST(Fallback, FiguresDecideWhereThereAreSome) {
  EXPECT_EQ(only_diagnosis("E zork: device memory allocation of 3.00 GiB failed, free: 4.00 GiB, largest free block: "
                           "1.00 GiB")
                .cause,
            Cause::fragmentation);
  const Diagnosis large = only_diagnosis("E zork: device memory allocation of 30.00 GiB failed, total: 24.00 GiB");
  EXPECT_EQ(large.cause, Cause::request_too_large);
  EXPECT_EQ(large.confidence, Confidence::medium) << "of a known program it would be high";
}

TEST(Fallback, ClaimsNoProseNoCodeAndNothingThatWentOn) {
  for (const char* line : {
           "The allocator reports an error when it cannot allocate memory of the device.",
           "If the server runs out of memory, lower the batch size.",
           "Fix a crash after a memory allocation failure in the parser",
           "tests/test_pool.py::test_out_of_memory_is_an_error PASSED",
           "    if \"out of memory\" in str(error):",
           "    raise ZorkError(\"failed to allocate memory\")",
           "WARNING zork: failed to allocate 12 MB of GPU memory, falling back to the CPU",
           "zork: error: failed to allocate memory, retrying with half the batch",
           "[info] zork: allocation of 12 MB failed on the first try",
           "Error: failed to allocate a port: address already in use",
           "**Likely cause**: a SIGKILL, often from the Linux OOM killer",
           "| `host_memory` | the host failed to allocate memory |",
           "> zork: error: out of memory happens to me as well",
           "memory: ok; oom-kill count 0; \"OOMKilled\": false; restarts 0",
           "class OutOfMemoryHandler : public ErrorHandler {",
       }) {
    EXPECT_TRUE(read(line).failures.empty()) << line;
  }
}

TEST(Fallback, YieldsToAReaderThatKnows) {
  const std::string_view known =
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 11.93 GiB total capacity; 11.25 GiB "
      "already allocated; 1.06 MiB free; 11.26 GiB reserved in total by PyTorch)\n";
  const std::string_view vague = "zork: error: the engine ran out of memory\n";
  for (const std::string& log : {std::string(vague) + std::string(known), std::string(known) + std::string(vague)}) {
    const LogFindings findings = read(log);
    ASSERT_EQ(findings.failures.size(), 1u) << log;
    EXPECT_EQ(findings.failures[0].framework, Framework::torch);
    EXPECT_EQ(findings.failures[0].requested_bytes, 20 * kMiB);
  }
}

TEST(Fallback, OfTwoVagueLinesTheOneWithFiguresStays) {
  const LogFindings findings = read(
      "E RKNN: failed to allocate handle, ret: -1, errstr: Cannot allocate memory\n"
      "E RKNN: failed to malloc npu memory, size: 1427746880, flags: 0x2\n");
  ASSERT_EQ(findings.failures.size(), 1u);
  EXPECT_EQ(findings.failures[0].requested_bytes, 1'427'746'880);
  EXPECT_EQ(findings.failures[0].line, 1);
}

TEST(Fallback, TheNameOfAPackageTellsTheFramework) {
  EXPECT_EQ(
      only_diagnosis("Error out of memory at line 380 in file /build/bitsandbytes/csrc/pythonInterface.c").framework,
      Framework::torch);
  EXPECT_EQ(only_diagnosis("charmm: error: out of memory at /src/charmm/grid.cc:12").framework, Framework::unknown);
}

TEST(Compiler, RunsOutOfRamOnWindowsToo) {
  for (const char* line : {
           "cc1plus.exe: out of memory allocating 65536 bytes",
           "C:/msys64/mingw64/bin/cc1.exe: out of memory allocating 4064 bytes",
           "cc1plus: out of memory allocating 838860800 bytes",
           "cc1plus.exe: out of memory allocating 1073741823 bytes after a total of 8536064 bytes",
           "ld.exe: out of memory allocating 33554432 bytes",
           "f951.exe: out of memory allocating 48 bytes",
           "c1xx: fatal error C1060: compiler is out of heap space",
           "c1xx : fatal error C3859: Failed to create virtual memory for PCH",
           "LINK : fatal error LNK1102: out of memory",
       }) {
    EXPECT_EQ(only_diagnosis(line).cause, Cause::host_memory) << line;
  }
}

TEST(Blender, NamesNoCause) {
  for (const char* line : {
           "System is out of GPU and shared host memory",
           "Error: System is out of GPU and shared host memory",
           "System is out of GPU memory",
           "Out of memory in hipMalloc((hipDeviceptr_t *)&device_pointer, size)",
           "Error: Out of memory in cuMemAlloc_v2(&device_pointer, size) "
           "(intern/cycles/device/cuda/device_impl.cpp:81)",
       }) {
    EXPECT_EQ(only_diagnosis(line).cause, Cause::unknown) << line;
    EXPECT_EQ(only_diagnosis(line).framework, Framework::unknown) << line;
  }
}

TEST(JavaHeap, IsSparksOnlyWhereSparkIsSpokenOf) {
  EXPECT_EQ(only_diagnosis("java.lang.OutOfMemoryError: Java heap space\n\tat weka.core.Instances.init(I.java:2)\n")
                .framework,
            Framework::unknown);
  EXPECT_EQ(only_diagnosis("java.lang.OutOfMemoryError: Java heap space\n\tat org.apache.spark.util.A.b(A.scala:2)\n")
                .framework,
            Framework::spark);
}

TEST(Neuron, IsToldOnce) {
  const LogFindings findings = read(
      "ERROR  TDRV:dmem_alloc_internal   Failed to alloc DEVICE memory: 201326592\n"
      "ERROR  TDRV:log_dev_mem           Failed to allocate 192.000MB (usage: tensors) on ND 0:NC 1, current "
      "utilization:\n"
      "\t* total: 15.801GB\n"
      "RuntimeError: nrt_tensor_allocate status=4 message=\"Allocation Failure\"\n");
  ASSERT_EQ(findings.failures.size(), 1u);
  EXPECT_EQ(findings.failures[0].requested_bytes, 192 * kMiB);
}

TEST(Tensorrt, FailsWhenNoTacticIsLeft) {
  const std::string_view skipped =
      "[E] Error[1]: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)\n"
      "[E] Error[9]: Skipping tactic 0x0 due to exception autotuning: User allocator error\n";
  EXPECT_TRUE(read(skipped).failures.empty());
  const std::string left =
      std::string(skipped) + "[E] Error[10]: Could not find any implementation for node {ForeignNode[a...b]}.\n";
  EXPECT_EQ(only_diagnosis(left).framework, Framework::tensorrt);
  EXPECT_TRUE(read("[E] Error[10]: Could not find any implementation for node {a}.\n").failures.empty())
      << "without a word about memory";
}

}  // namespace
}  // namespace plimsoll::explain

// Every text form of out-of-memory that is known, from the message to its cause.
#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t mib(double count) { return static_cast<int64_t>(count * kMiB); }
constexpr int64_t gib(double count) { return static_cast<int64_t>(count * kGiB); }

LogFindings read(std::string_view text) { return read_log(*open_memory(text, "log")); }

Failure only_failure(std::string_view text) {
  const LogFindings findings = read(text);
  EXPECT_EQ(findings.failures.size(), 1u) << text;
  return findings.failures.empty() ? Failure{} : findings.failures[0];
}

Cause cause_of(std::string_view text) { return diagnose(only_failure(text)).cause; }

TEST(TorchMessage, OfVersion1WithCached) {
  const Failure failure = only_failure(
      "RuntimeError: CUDA out of memory. Tried to allocate 16.00 GiB (GPU 0; 11.93 GiB total capacity; 4.00 GiB "
      "already "
      "allocated; 7.33 GiB free; 179.00 KiB cached)");
  EXPECT_EQ(failure.requested_bytes, gib(16));
  EXPECT_EQ(failure.total_bytes, gib(11.93));
  EXPECT_EQ(failure.allocated_bytes, gib(4));
  EXPECT_EQ(failure.free_bytes, gib(7.33));
  EXPECT_EQ(failure.unallocated_bytes, 179 * kKiB);
  EXPECT_EQ(failure.device, "0");
  EXPECT_EQ(diagnose(failure).cause, Cause::request_too_large);
}

TEST(TorchMessage, OfVersion1WithReserved) {
  const Failure failure = only_failure(
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 11.93 GiB total capacity; 11.25 GiB "
      "already "
      "allocated; 1.06 MiB free; 11.29 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try "
      "setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and "
      "PYTORCH_CUDA_ALLOC_CONF");
  EXPECT_EQ(failure.requested_bytes, mib(20));
  EXPECT_EQ(failure.unallocated_bytes, gib(11.29) - gib(11.25));
  EXPECT_EQ(diagnose(failure).cause, Cause::device_full) << "40 MiB are free in the allocator, of 12 GiB";
}

TEST(TorchMessage, OfVersion2WithProcesses) {
  const Failure failure = only_failure(
      "CUDA out of memory. Tried to allocate 32.00 GiB. GPU 0 has a total capacty of 23.69 GiB of which 14.12 GiB is "
      "free. Process 2006998 has 256.00 MiB memory in use. Including non-PyTorch memory, this process has 9.30 GiB "
      "memory in use. Of the allocated memory 9.00 GiB is allocated by PyTorch, and 982.50 KiB is reserved by PyTorch "
      "but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid it");
  EXPECT_EQ(failure.total_bytes, gib(23.69));
  EXPECT_EQ(failure.process_bytes, gib(9.3));
  ASSERT_EQ(failure.processes.size(), 1u);
  EXPECT_EQ(failure.processes[0].bytes, mib(256));
  EXPECT_EQ(failure.unallocated_bytes, static_cast<int64_t>(982.5 * kKiB));
  EXPECT_EQ(diagnose(failure).cause, Cause::request_too_large);
}

TEST(TorchMessage, WithAllClauses) {
  const Failure failure = only_failure(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 3 has a total capacity of 79.10 GiB "
      "of "
      "which 60.00 GiB is free. Including non-PyTorch memory, this process has 19.10 GiB memory in use. 19.20 GiB "
      "allowed; "
      "Of the allocated memory 18.00 GiB is allocated by PyTorch, with 2.00 GiB allocated in private pools (e.g., CUDA "
      "Graphs), and 100.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
      "setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.");
  EXPECT_EQ(failure.device, "3");
  EXPECT_EQ(failure.allowed_bytes, gib(19.2));
  EXPECT_EQ(failure.private_pool_bytes, gib(2));
  EXPECT_TRUE(failure.suggests_expandable);
  EXPECT_FALSE(failure.expandable_is_on) << "the hint alone does not say so";
  EXPECT_EQ(diagnose(failure).cause, Cause::cap_below_card);
}

TEST(TorchMessage, OfOtherBackends) {
  EXPECT_EQ(
      only_failure("HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB of which "
                   "0 bytes is free. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 1.00 MiB is "
                   "reserved by PyTorch but unallocated.")
          .free_bytes,
      0);
  EXPECT_EQ(
      only_failure("RuntimeError: XPU out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.98 GiB total capacity; "
                   "14.00 GiB already allocated; 14.10 GiB reserved in total by PyTorch)")
          .allocated_bytes,
      gib(14));
  const Failure mps = only_failure(
      "RuntimeError: MPS backend out of memory (MPS allocated: 17.36 GB, other allocations: 613.56 MB, max allowed: "
      "18.13 "
      "GB). Tried to allocate 192.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable");
  EXPECT_EQ(mps.requested_bytes, mib(192));
  EXPECT_NEAR(static_cast<double>(mps.other_bytes.value()), 613.56 * kMiB, 1);
  EXPECT_EQ(diagnose(mps).cause, Cause::device_full);
}

TEST(TorchMessage, GarbageSizesAreNoNeed) {
  EXPECT_EQ(cause_of("CUDA out of memory. Tried to allocate more than 1EB memory."), Cause::garbage_size);
  EXPECT_EQ(cause_of("RuntimeError: Storage size calculation overflowed with sizes=[1099511627776, 1073741824]"),
            Cause::garbage_size);
}

TEST(TorchMessage, LibrariesAndTheDriver) {
  EXPECT_EQ(cause_of("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            Cause::workspace);
  const Diagnosis bare = diagnose(only_failure("RuntimeError: CUDA error: out of memory"));
  EXPECT_EQ(bare.cause, Cause::unknown);
  EXPECT_EQ(bare.confidence, Confidence::low) << "without a traceback nobody can tell";
}

TEST(TorchMessage, ACudaErrorWhilePinningIsHostMemory) {
  const Failure failure = only_failure(
      "Traceback (most recent call last):\n"
      "  File \"/home/me/train.py\", line 12, in main\n"
      "    batch = batch.pin_memory()\n"
      "RuntimeError: CUDA error: out of memory\n");
  EXPECT_EQ(diagnose(failure).cause, Cause::pinned_host_memory);
  EXPECT_EQ(failure.place, "train.py:12 in main");
}

TEST(HostMessage, OfEveryKind) {
  const std::string_view cpu =
      "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
      "tried to "
      "allocate 2359296 bytes. Error code 12 (Cannot allocate memory)";
  EXPECT_EQ(only_failure(cpu).requested_bytes, 2'359'296);
  EXPECT_EQ(cause_of(cpu), Cause::host_memory);
  EXPECT_EQ(cause_of("RuntimeError: DataLoader worker (pid 22358) is killed by signal: Killed."), Cause::host_memory);
  EXPECT_EQ(
      cause_of("ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
               "(shm)."),
      Cause::shared_memory);
  EXPECT_EQ(cause_of("RuntimeError: DataLoader worker (pid(s) 15) is killed by signal: Bus error. It is possible that "
                     "dataloader's workers are out of shared memory."),
            Cause::shared_memory);
  EXPECT_EQ(cause_of("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape "
                     "(1000000000,) and data type float64"),
            Cause::host_memory);
  EXPECT_TRUE(
      read("RuntimeError: DataLoader worker (pid 9) is killed by signal: Segmentation fault.").failures.empty());
}

TEST(TensorflowMessage, ExceptionHasTheBytesOfItsShape) {
  const Failure failure = only_failure(
      "ResourceExhaustedError: OOM when allocating tensor with shape[1,512,480,480] and type float on "
      "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc");
  EXPECT_EQ(failure.requested_bytes, int64_t{512} * 480 * 480 * 4);
  EXPECT_EQ(failure.device, "0");
  EXPECT_EQ(diagnose(failure).cause, Cause::device_full);
}

constexpr const char* kBfcDump =
    "2024-01-01 W tensorflow/core/common_runtime/bfc_allocator.cc:462] Allocator (GPU_0_bfc) ran out of memory trying "
    "to "
    "allocate 400.00MiB (rounded to 419430400) from the lower end requested by op conv1\n"
    "I bfc_allocator.cc:1040] Bin (8388608): \tTotal Chunks: 2, Chunks in use: 2. 24.57MiB allocated for chunks. "
    "24.57MiB "
    "in use in bin. 24.57MiB client-requested in use in bin.\n"
    "I bfc_allocator.cc:1056] Chunk at 0x1323f9bd00 of size 246016000\n"
    "I bfc_allocator.cc:1056] InUse at 7f0000000000 of size 246016000 next 1\n"
    "I bfc_allocator.cc:1056] Free  at 7f000ea9f000 of size 314572800 next 2\n"
    "I bfc_allocator.cc:1056] InUse at 7f002169f000 of size 1024 next 3\n"
    "I bfc_allocator.cc:1056] Free  at 7f002169f400 of size 209715200 next 18446744073709551615\n"
    "I bfc_allocator.cc:1094] 1 Chunks of size 246016000 totalling 234.62MiB\n"
    "I bfc_allocator.cc:1098] Sum Total of in-use chunks: 234.6MiB\n"
    "Limit:                      2147483648\n"
    "InUse:                       246017024\n"
    "MaxInUse:                    300000000\n";

TEST(TensorflowMessage, DumpTellsFragmentationFromFullness) {
  const Failure failure = only_failure(kBfcDump);
  EXPECT_EQ(failure.requested_bytes, 419'430'400);
  EXPECT_EQ(failure.unallocated_bytes, 314'572'800 + 209'715'200);
  EXPECT_EQ(failure.largest_free_bytes, 314'572'800);
  EXPECT_EQ(failure.allowed_bytes, 2'147'483'648);
  EXPECT_EQ(failure.allocated_bytes, 246'017'024);
  EXPECT_EQ(failure.subject, "conv1");
  EXPECT_EQ(diagnose(failure).cause, Cause::fragmentation);
  EXPECT_EQ(diagnose(failure).remedies[0].setting, "TF_GPU_ALLOCATOR=cuda_malloc_async");
}

TEST(TensorflowMessage, AllocatorAndExceptionAreOneFailure) {
  std::string log = kBfcDump;
  log +=
      "ResourceExhaustedError: OOM when allocating tensor with shape[1024,102400] and type float on /device:GPU:0 by "
      "allocator GPU_0_bfc\n";
  const LogFindings findings = read(log);
  ASSERT_EQ(findings.failures.size(), 1u);
  EXPECT_TRUE(findings.failures[0].raised);
}

TEST(TensorflowMessage, PreallocationHintsAtOthers) {
  const Failure failure = only_failure(
      "failed to allocate 13.76G (14773796864 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  EXPECT_EQ(failure.requested_bytes, 14'773'796'864);
  EXPECT_EQ(diagnose(failure).cause, Cause::other_process);
  EXPECT_EQ(diagnose(failure).confidence, Confidence::low);
}

TEST(TensorflowMessage, NotAFailureIsNotCounted) {
  const LogFindings findings = read(
      "W bfc_allocator.cc:371] Allocator (GPU_0_bfc) ran out of memory trying to allocate 13.43GiB from the lower end "
      "with "
      "freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be "
      "performance "
      "gains if more memory were available.\n");
  EXPECT_TRUE(findings.failures.empty());
  EXPECT_EQ(findings.not_failures, 1);
}

TEST(XlaMessage, OfEveryKind) {
  const Failure runtime =
      only_failure("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.");
  EXPECT_EQ(runtime.requested_bytes, 6'291'456);
  EXPECT_EQ(diagnose(runtime).cause, Cause::device_full);
  const Failure compile = only_failure(
      "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 49.34G of "
      "32.00G "
      "hbm. Exceeded hbm capacity by 17.34G.");
  EXPECT_EQ(compile.requested_bytes, std::nullopt) << "a program is not one request";
  EXPECT_EQ(compile.allocated_bytes, gib(49.34));
  EXPECT_EQ(compile.total_bytes, gib(32));
  EXPECT_EQ(diagnose(compile).cause, Cause::device_full);
  const Failure buffer = only_failure(
      "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 8.00M. That was not possible. There "
      "are "
      "6.43M free.; (0x0x1_HBM0)");
  EXPECT_EQ(buffer.requested_bytes, mib(8));
  EXPECT_EQ(buffer.free_bytes, mib(6.43));
  EXPECT_EQ(diagnose(buffer).cause, Cause::device_full);
}

TEST(XlaMessage, BufferAssignmentTellsTheKind) {
  const Failure failure = only_failure(
      "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 13958643712 bytes.\n"
      "BufferAssignment OOM Debugging.\n"
      "BufferAssignment stats:\n"
      "             parameter allocation:    2.00GiB\n"
      "              constant allocation:         0B\n"
      "        maybe_live_out allocation:    1.00GiB\n"
      "     preallocated temp allocation:   13.00GiB\n"
      "                 total allocation:   16.00GiB\n"
      "Peak buffers:\n"
      "\tBuffer 1:\n"
      "\t\tSize: 4.00GiB\n"
      "\t\tOperator: op_name=\"jit(f)/dot_general\" source_file=\"f.py\" source_line=3\n"
      "\t\tXLA Label: fusion\n"
      "\t\tShape: f32[32768,32768]\n"
      "\t\t==========================\n");
  EXPECT_EQ(failure.allocated_bytes, gib(16));
  EXPECT_EQ(failure.holders.back().name, "buffer 1 jit(f)/dot_general f32[32768,32768]");
  EXPECT_EQ(failure.holders.back().bytes, gib(4));
  EXPECT_EQ(diagnose(failure).cause, Cause::workspace) << "nothing shows a backward";
}

TEST(XlaMessage, TemporariesOfATrainingStepAreActivations) {
  const Failure failure = only_failure(
      "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 13958643712 bytes.\n"
      "BufferAssignment OOM Debugging.\n"
      "BufferAssignment stats:\n"
      "             parameter allocation:    2.00GiB\n"
      "     preallocated temp allocation:   13.00GiB\n"
      "Peak buffers:\n"
      "\tBuffer 1:\n"
      "\t\tSize: 4.00GiB\n"
      "\t\tOperator: op_name=\"jit(step)/transpose(jvp(Block))/dot_general\"\n");
  EXPECT_EQ(diagnose(failure).cause, Cause::activations);
}

TEST(OtherMessage, OfOnnxRuntimeMlxGgmlRmm) {
  const Failure ort = only_failure(
      "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running FusedMatMul node. "
      "Name:'mm_1' Status Message: /onnxruntime/core/framework/bfc_arena.cc:331 Failed to allocate memory for "
      "requested "
      "buffer of size 8388608000");
  EXPECT_EQ(ort.requested_bytes, 8'388'608'000);
  EXPECT_EQ(ort.subject, "mm_1");
  EXPECT_EQ(diagnose(ort).cause, Cause::device_full);
  EXPECT_EQ(cause_of("bfc_arena.cc:347 Available memory of 0 is smaller than requested bytes of 2048"),
            Cause::cap_below_card);
  EXPECT_EQ(
      cause_of("[metal::malloc] Attempting to allocate 83404284800 bytes which is greater than the maximum allowed "
               "buffer size of 77309411328 bytes."),
      Cause::request_too_large);
  EXPECT_EQ(only_failure("[malloc] Unable to allocate 4096 bytes.").requested_bytes, 4096);
  const Failure ggml = only_failure(
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8900.01 MiB on device 0: cudaMalloc failed: out of "
      "memory");
  EXPECT_EQ(ggml.framework, Framework::ggml);
  EXPECT_EQ(ggml.requested_bytes, mib(8900.01));
  EXPECT_EQ(only_failure(
                "std::bad_alloc: out_of_memory: CUDA error at: /rmm/x.hpp:70: cudaErrorMemoryAllocation out of memory")
                .framework,
            Framework::rmm);
}

TEST(OtherMessage, OfPlimsollItself) {
  const Failure failure = only_failure(
      "plimsoll: OOM when allocating tensor with shape[384,192] and type float on cpu by allocator pool: 288.00 KiB "
      "asked "
      "for fc1.weight in op matmul, 100.00 KiB of 200.00 KiB in use\n  largest free: 50.00 KiB (51,200 B)\n");
  EXPECT_EQ(failure.framework, Framework::plimsoll);
  EXPECT_EQ(failure.requested_bytes, 288 * kKiB);
  EXPECT_EQ(failure.allocated_bytes, 100 * kKiB);
  EXPECT_EQ(failure.allowed_bytes, 200 * kKiB);
  EXPECT_EQ(failure.largest_free_bytes, 50 * kKiB);
}

TEST(KernelMessage, ReportOfACgroupIsOneFailure) {
  const Failure failure = only_failure(
      "[100.1] uwsgi invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=986\n"
      "[100.1] CPU: 3 PID: 63214 Comm: uwsgi\n"
      "[100.1] memory: usage 1048576kB, limit 1048576kB, failcnt 141\n"
      "[100.1] Tasks state (memory values in pages):\n"
      "[100.1] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
      "[100.1] [  63214]     0 63214   787367    54315   1404928        0           986 uwsgi\n"
      "[100.1] [  63300]     0 63300   100000    20000   1404928        0           986 python3\n"
      "[100.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/pod1,"
      "task_memcg=/pod1,task=uwsgi,pid=63214,uid=0\n"
      "[100.1] Memory cgroup out of memory: Killed process 63214 (uwsgi) total-vm:3149468kB, anon-rss:164992kB, "
      "file-rss:52176kB, shmem-rss:92kB, UID:0 pgtables:1372kB oom_score_adj:986\n");
  EXPECT_EQ(failure.arena, Arena::cgroup);
  EXPECT_EQ(failure.allowed_bytes, kGiB);
  EXPECT_EQ(failure.process_bytes, (164992 + 52176 + 92) * kKiB) << "the kill line counts kB";
  ASSERT_EQ(failure.processes.size(), 2u);
  EXPECT_EQ(failure.processes[0].bytes, 54315 * 4096) << "the task table counts pages";
  EXPECT_EQ(diagnose(failure).cause, Cause::cgroup_limit);
}

TEST(KernelMessage, ReportOfTheMachineIsHostMemory) {
  EXPECT_EQ(cause_of("Out of memory: Killed process 15784 (python3) total-vm:11964kB, anon-rss:100kB, file-rss:4kB, "
                     "shmem-rss:0kB"),
            Cause::host_memory);
  EXPECT_EQ(cause_of("Memory cgroup out of memory: Kill process 42453 (memcg_test_1) score 0 or sacrifice child"),
            Cause::cgroup_limit);
  EXPECT_EQ(cause_of("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/pod1,"
                     "task_memcg=/pod1,task=python3,pid=19289,uid=0"),
            Cause::cgroup_limit);
}

constexpr const char* kModern =
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU {} has a total capacity of 23.69 GiB of which {} is free. "
    "{}this "
    "process has {} memory in use. Of the allocated memory 9.00 GiB is allocated by PyTorch, and {} is reserved by "
    "PyTorch "
    "but unallocated.";

std::string modern(std::string_view gpu, std::string_view free, std::string_view others, std::string_view used,
                   std::string_view holes) {
  return fmt::format(fmt::runtime(kModern), gpu, free, others, used, holes);
}

TEST(Trap, WslPrintsAnUnknownAsAHugeNumber) {
  const Failure failure = only_failure(
      modern("0", "0 bytes", "Process 17 has 17179869184.00 GiB memory in use. ", "17179869184.00 GiB", "1.00 MiB"));
  EXPECT_EQ(failure.process_bytes, std::nullopt);
  EXPECT_TRUE(failure.processes.empty());
  EXPECT_EQ(diagnose(failure).cause, Cause::other_process) << "14.69 GiB of the card are nobody's that we know";
  EXPECT_EQ(diagnose(failure).confidence, Confidence::medium);
}

TEST(Trap, TheGpuIndexCanBeBlank) {
  const Failure failure = only_failure(modern("", "1.00 GiB", "", "9.30 GiB", "1.00 MiB"));
  EXPECT_EQ(failure.device, "");
  EXPECT_EQ(failure.total_bytes, gib(23.69));
}

TEST(Trap, SeveralProcessesInOneMessage) {
  const Failure failure =
      only_failure(modern("0", "390.00 MiB",
                          "Process 11 has 10.00 GiB memory in use. Process 12 has 4.00 GiB memory in use. "
                          "Including non-PyTorch memory, ",
                          "9.30 GiB", "1.00 MiB"));
  ASSERT_EQ(failure.processes.size(), 2u);
  const Diagnosis diagnosis = diagnose(failure);
  EXPECT_EQ(diagnosis.cause, Cause::other_process);
  EXPECT_EQ(diagnosis.remedies[0].saves_bytes, gib(14));
}

TEST(Trap, DecimalCommas) {
  const Failure failure = only_failure(
      "CUDA out of memory. Tried to allocate 1900,00 MiB. GPU 0 has a total capacity of 23,69 GiB of which 1,50 GiB is "
      "free.");
  EXPECT_EQ(failure.requested_bytes, mib(1900));
  EXPECT_EQ(failure.free_bytes, gib(1.5));
}

TEST(Trap, ASwitchThatIsOnIsNotOffered) {
  const std::string message = modern("0", "1.00 GiB", "", "22.60 GiB", "13.00 GiB") +
                              " If reserved but unallocated memory is large try setting "
                              "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n";
  const auto offers = [](const Diagnosis& diagnosis) {
    for (const Remedy& remedy : diagnosis.remedies) {
      if (remedy.setting.find("expandable") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(offers(diagnose(only_failure(message))));
  EXPECT_FALSE(offers(diagnose(only_failure("+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" + message))));
}

TEST(Trap, MemoryOutsideTheFramework) {
  EXPECT_EQ(cause_of(modern("0", "10.00 MiB", "", "23.60 GiB", "1.00 MiB")), Cause::outside_framework);
}

TEST(DriverMessage, OfAnotherProgramIsNotPyTorchs) {
  const auto framework = [](std::string_view line) {
    const LogFindings findings = read(line);
    return findings.failures.empty() ? Framework::plimsoll : findings.failures[0].framework;
  };
  EXPECT_EQ(framework("[Fatal] CUDA error: out of memory /src/cuda_histogram.cpp 120"), Framework::unknown);
  EXPECT_EQ(framework("RuntimeError: CUDA error: out of memory"), Framework::torch);
}

TEST(XlaMessage, CudnnWithoutAHandleIsMemoryOnlyOnAFullCard) {
  const std::string handle = "E xla/stream_executor/cuda/cuda_dnn.cc:407] Could not create cudnn handle: x\n";
  const std::string usage = "E xla/stream_executor/cuda/cuda_dnn.cc:411] Memory usage: ";
  const LogFindings full = read(handle + usage + "4390912 bytes free, 25438126080 bytes total.\n");
  ASSERT_EQ(full.failures.size(), 1u);
  EXPECT_EQ(full.failures[0].free_bytes, 4390912);
  EXPECT_EQ(full.failures[0].total_bytes, 25438126080);
  EXPECT_TRUE(read(handle + usage + "21438126080 bytes free, 25438126080 bytes total.\n").failures.empty());
}

}  // namespace
}  // namespace plimsoll::explain

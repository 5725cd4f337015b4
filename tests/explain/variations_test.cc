// Logs as they come: other versions' wording, launchers' and loggers' prefixes, and words that mean nothing. Each in
// its own wrapping, to its cause.
#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

struct Variation {
  const char* name;
  const char* log;
  Cause cause;
  OptionalBytes requested_bytes;
};

const Variation kVariations[] = {
    {"PyTorch 0.4, before there were figures",
     "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory\n"
     "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58\n",
     Cause::unknown,
     {}},
    {"PyTorch 1.4 in a Lightning log with times",
     "2020-03-01 09:12:44,120 ERROR lightning: RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 1; "
     "15.90 GiB total capacity; 14.60 GiB already allocated; 20.75 MiB free; 14.80 GiB reserved in total by PyTorch)\n",
     Cause::device_full, kGiB},
    {"PyTorch 2.3 through DeepSpeed's rank prefix",
     "[default3]:[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 3 has a "
     "total "
     "capacity of 79.15 GiB of which 60.19 MiB is free. Including non-PyTorch memory, this process has 79.08 GiB "
     "memory "
     "in use. Of the allocated memory 76.50 GiB is allocated by PyTorch, and 84.00 MiB is reserved by PyTorch but "
     "unallocated. If reserved but unallocated memory is large try setting "
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n",
     Cause::device_full, 96 * kMiB},
    {"PyTorch 2.11 with another process on the card",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB "
     "of "
     "which 1.10 GiB is free. Process 4021 has 18.20 GiB memory in use. Including non-PyTorch memory, this process has "
     "4.30 GiB memory in use. Of the allocated memory 3.80 GiB is allocated by PyTorch, and 12.00 MiB is reserved by "
     "PyTorch but unallocated.\n",
     Cause::other_process, 2 * kGiB},
    {"the cudaMallocAsync backend's table",
     "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
     "Currently allocated     : 7.41 GiB\n"
     "Requested               : 1.00 GiB\n"
     "Device limit            : 8.00 GiB\n"
     "Free (according to CUDA): 0 bytes\n"
     "PyTorch limit (set by user-supplied memory fraction)\n"
     "                        : 17179869184.00 GiB\n",
     Cause::device_full, kGiB},
    {"HIP on a card that is full",
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 15.98 GiB "
     "of "
     "which 24.00 MiB is free. Of the allocated memory 15.40 GiB is allocated by PyTorch, and 100.00 MiB is reserved "
     "by "
     "PyTorch but unallocated.\n",
     Cause::device_full, 512 * kMiB},
    {"MPS in a notebook's JSON",
     R"(     "evalue": "MPS backend out of memory (MPS allocated: 8.80 GB, other allocations: 320.00 KB, max allowed: 9.07 GB). Tried to allocate 1.00 GB on private pool.",)"
     "\n",
     Cause::device_full, kGiB},
    {"NCCL when it starts",
     "node1:2711:2790 [2] misc/strongstream.cc:41 NCCL WARN Cuda failure 2 'out of memory'\n",
     Cause::outside_framework,
     {}},
    {"PyTorch on Windows",
     "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to "
     "allocate 25769803776 bytes.\n",
     Cause::host_memory, 24 * kGiB},
    {"TensorFlow 1 with the shape apart",
     "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor of shape "
     "[1024,1024,256] "
     "and type float\n\t [[Node: gradients/conv1/Conv2D_grad/zeros = Const[dtype=DT_FLOAT]()]]\n",
     Cause::device_full, kGiB},
    {"TensorFlow 2 through XLA",
     "2 root error(s) found.\n  (0) RESOURCE_EXHAUSTED:  Out of memory while trying to allocate 1073741824 bytes.\n"
     "\t [[{{node StatefulPartitionedCall}}]]\n",
     Cause::device_full, kGiB},
    {"JAX without preallocation",
     "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 6.00GiB (6442450944B) "
     "on "
     "device ordinal 0\n",
     Cause::device_full, 6 * kGiB},
    {"JAX on a TPU, whole program",
     "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in "
     "memory space hbm. Used 22.00G of 15.48G hbm. Exceeded hbm capacity by 6.52G.\n\nTotal hbm usage >= 22.52G:\n"
     "    reserved        530.00M\n    program          22.00G\n    arguments            0B\n",
     Cause::workspace,
     {}},
    {"CuPy with grouped digits",
     "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: 6,000,000,000 "
     "bytes, limit set to: 10,000,000,000 bytes).\n",
     Cause::cap_below_card, 8'000'000'000},
    {"a pod's cgroup of version 2, from the journal",
     "Mar 02 11:02:07 node7 kernel: python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
     "oom_score_adj=969\n"
     "Mar 02 11:02:07 node7 kernel: memory: usage 8388608kB, limit 8388608kB, failcnt 0\n"
     "Mar 02 11:02:07 node7 kernel: swap: usage 0kB, limit 0kB, failcnt 0\n"
     "Mar 02 11:02:07 node7 kernel: Memory cgroup stats for /kubepods.slice/pod1.scope:\n"
     "Mar 02 11:02:07 node7 kernel: "
     "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-1.scope,mems_allowed="
     "0-1,oom_memcg=/kubepods.slice/pod1.scope,task_memcg=/kubepods.slice/pod1.scope,task=python3,pid=91,uid=0\n"
     "Mar 02 11:02:07 node7 kernel: Memory cgroup out of memory: Killed process 91 (python3) total-vm:20971520kB, "
     "anon-rss:8290304kB, file-rss:65536kB, shmem-rss:0kB, UID:0 pgtables:18000kB oom_score_adj:969\n",
     Cause::cgroup_limit,
     {}},
    {"an old kernel's cgroup",
     "[92134.1] Task in /docker/4f2 killed as a result of limit of /docker/4f2\n"
     "[92134.2] memory: usage 2097152kB, limit 2097152kB, failcnt 51\n"
     "[92134.3] Memory cgroup out of memory: Kill process 4211 (python) score 990 or sacrifice child\n"
     "[92134.4] Killed process 4211 (python) total-vm:9000000kB, anon-rss:2080000kB, file-rss:12000kB, shmem-rss:0kB\n",
     Cause::cgroup_limit,
     {}},
    {"Slurm's step",
     "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=48120.0. Some of your processes may have been killed "
     "by "
     "the cgroup out-of-memory handler.\n",
     Cause::cgroup_limit,
     {}},
    {"kubectl describe",
     "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n",
     Cause::cgroup_limit,
     {}},
};

TEST(Variations, EachHasItsOwnCause) {
  for (const Variation& variation : kVariations) {
    const LogFindings findings = read_log(*open_memory(variation.log, "log"));
    ASSERT_EQ(findings.failures.size(), 1u) << variation.name;
    EXPECT_EQ(name(diagnose(findings.failures[0]).cause), name(variation.cause)) << variation.name;
    EXPECT_EQ(findings.failures[0].requested_bytes, variation.requested_bytes) << variation.name;
  }
}

TEST(Variations, WordsAloneAreNoFailure) {
  for (const char* line :
       {"INFO trainer: out of memory guard is enabled, batch size 32",
        "WARNING: training may run out of memory with these settings; consider gradient checkpointing",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: "
        "101376",
        "    \"OOMKilled\": false,", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "W external/xla/bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.20GiB with "
        "freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be "
        "performance gains if more memory were available.",
        "except torch.cuda.OutOfMemoryError:", "def test_out_of_memory(): pass",
        "OSError: [Errno 28] No space left on device", "systemd[1]: Started Userspace Out-Of-Memory (OOM) Killer.",
        "oom_score_adj: 0", "vm.overcommit_memory = 1"}) {
    const LogFindings findings = read_log(*open_memory(line, "log"));
    EXPECT_TRUE(findings.failures.empty()) << line;
  }
}

}  // namespace
}  // namespace plimsoll::explain

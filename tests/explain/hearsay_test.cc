// What people say of a failure that is over or might come, and what programs report, in the same words.
#include "plimsoll/explain/hearsay.h"

#include <gtest/gtest.h>

#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

size_t failures_in(std::string_view line) { return read_log(*open_memory(line, "log")).failures.size(); }

TEST(Hearsay, WhatIsOverOrMightComeIsNoFailure) {
  for (const char* line : {
           "anders_b: with batch_size / 2 the CUDA out of memory error is solved, thank you!",
           "The CUDA out of memory error is gone after I restarted the kernel.",
           "Fixed! The CUDA out of memory error disappeared with gradient checkpointing.",
           "I no longer get the CUDA out of memory error on the 3090.",
           "Reducing the image size to 512 worked for me, no CUDA out of memory error any more.",
           "anna_k: thanks, lowering the batch to 4 fixed the \"RuntimeError: CUDA out of memory\" error for me",
           "I used to get CUDA out of memory errors with 1.5, with 1.6 it runs.",
           "That would give you a CUDA out of memory error on 8 GB cards.",
           "You might run into CUDA out of memory error with 24 layers.",
           "How do I avoid the CUDA error: out of memory on a 6 GB card?",
           "I had a CUDA out of memory error last week, updating the driver to 535 resolved it.",
           "mike: ok, setting num_workers=0 got rid of the OOM error, memory allocation failed no more",
           "We had two pods OOMKilled last week, since the upgrade it has not happened again.",
           "The container was oom-killed because of a leak that is fixed in 2.3.1",
           "In order not to be oom-killed, the job requests 64 GB.",
           "@lee After the update to 2.1 the pods are no longer killed for out of memory.",
           "user42: my job was killed out of memory yesterday but with --mem=64G it finished, cheers",
           "The OOM killer would have killed process 123 if swap were off, so keep it on.",
           "Turning on swap solved the \"Cannot allocate memory\" error for me.",
           "It used to fail with Cannot allocate memory (errno 12), after ulimit -v unlimited it is ok now",
           "Thanks @tom, fork: Cannot allocate memory is gone after adding 2 GB of swap",
           "To prevent OSError: [Errno 12] Cannot allocate memory, use spawn instead of fork.",
           "Solved: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes, by "
           "XLA_PYTHON_CLIENT_PREALLOCATE=false",
           "With preallocation off the RESOURCE_EXHAUSTED error went away on my 2080",
           "Would XLA raise RESOURCE_EXHAUSTED: Out of memory here, or spill?",
           "I was getting RESOURCE_EXHAUSTED: Out of memory errors until I set the batch to 16, now it trains fine.",
           "jo: switching to the 64-bit build solved the std::bad_alloc error, out of memory does not occur now",
           "std::bad_alloc is not thrown any more since 4.2, the memory allocation failure was our bug",
           "I would expect a std::bad_alloc error here, not memory allocation failed silently.",
           "After the patch no more \"terminate called after throwing an instance of 'std::bad_alloc'\", many thanks!",
           "The MemoryError is resolved by reading the csv in chunks, thanks a lot",
           "numpy.core._exceptions.MemoryError: Unable to allocate 3.2 GiB went away when I switched to float32",
           "That fixed the MemoryError: Unable to allocate 12.0 GiB for an array, you saved my day!",
           "MemoryError no longer occurs with pandas 2.0, it ran out of memory error free.",
           "My script got Killed (out of memory) before, now with a generator it works perfectly.",
           "zed > it was killed by the out of memory killer, adding 8GB swap did the trick",
           "Problem solved, it was killed because it ran out of memory, I upgraded to 16 GB.",
           "For anyone still getting an out of memory error: version 1.8 fixed it for me.",
           "I hope this helps somebody with the failed to allocate memory error on 4 GB.",
           "Has anyone managed to train SDXL in 8 GB without an out of memory error?",
           "Glad it works now, the cudaErrorMemoryAllocation out of memory error was from a second process.",
           "I managed to solve \"CUDA error: out of memory\" by killing 3 zombie processes with nvidia-smi",
           "Works like a charm: no out of memory errors at 1024x1024 with --medvram!",
           "Could it be that the GPU out of memory error comes from the 4K monitor?",
           "bert_fan: update: halving max_len made the CUDA out of memory error go away",
           "nina: Setting PYTORCH_CUDA_ALLOC_CONF helped, training finished without a CUDA out of memory error",
           "Just closing Chrome was enough, the CUDA out of memory error did not come back.",
           "Yes! That was it, CUDA error: out of memory was caused by a zombie process.",
           "Upgrading to 32 GB took care of the std::bad_alloc error.",
           "My colleague's pod was OOMKilled by the same bug, 1.9.2 has the fix.",
           "@carl did raising the limit help with the oom-killed error on 2 nodes?",
           "Is there any way to catch a MemoryError: Unable to allocate before it kills the app?",
           "RESOURCE_EXHAUSTED: Out of memory errors are history since I bought a 4090 :)",
           "It turned out that the \"Cannot allocate memory\" error came from a ulimit of 4 GB, closing this.",
           "Closing as resolved: the process was killed, out of memory, because of the old driver 470.",
           "tom: no worries, memory allocation failed for me too before 2.4, just update",
           "Ok so error was out of memory, now solved with 16gb ram",
           "I'd guess the error \"failed to allocate 512 MB\" would disappear with a bigger page file",
           "Great, with the Q4 quant there's no CUDA error: out of memory.",
           "You were right, after the reboot the GPU memory allocation failed error is history",
           "petra: rebooting cured my CUDA out of memory error",
           "Reinstalling xformers made the difference, CUDA out of memory error solved.",
           "FWIW the CUDA out of memory error is due to the leak in 0.4.1, please update",
           "Can confirm, 3.0.1 no longer throws std::bad_alloc errors",
           "So far no oom-killed pods, fingers crossed, 3 days running",
           "Before that change my server was killed, out of memory, each night",
           "@kim: same here, I got the failed to allocate 2 GB error too but a reboot helped",
       }) {
    EXPECT_EQ(failures_in(line), 0u) << line;
  }
}

TEST(Hearsay, WhatProgramsReportIsOne) {
  for (const char* line : {
           "RuntimeError: CUDA error: out of memory",
           "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
           "23.64 GiB of which 1.31 GiB is free.",
           "Error: CUDA out of memory",
           "render: error: out of GPU memory",
           "[ERROR] solver: failed to allocate 2147483648 bytes of device memory",
           "ERROR: worker 3 ran out of memory",
           "fatal: out of memory, malloc failed (tried to allocate 4096000 bytes)",
           "terminate called after throwing an instance of 'std::bad_alloc'",
           "  what():  std::bad_alloc",
           "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
           "2147483648 bytes.",
           "RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes",
           "MemoryError: Unable to allocate 3.20 GiB for an array with shape (20000, 21474) and data type float64",
           "MemoryError",
           "OSError: [Errno 12] Cannot allocate memory",
           "bash: fork: Cannot allocate memory",
           "mmap failed: Cannot allocate memory",
           "Out of memory: Killed process 4410 (gunicorn) total-vm:18231120kB, anon-rss:15233008kB, file-rss:0kB, "
           "shmem-rss:0kB",
           "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch cgroup.",
           "Last State: Terminated  Reason: OOMKilled  Exit Code: 137",
           "container web was killed: exceeded its memory limit of 512Mi",
           "systemd[1]: app.service: A process of this unit has been killed by the OOM killer.",
           "java.lang.OutOfMemoryError: Java heap space",
           "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
           "thread 'main' panicked at: out of memory",
           "virtual memory exhausted: Cannot allocate memory",
           "cc1plus: out of memory allocating 65536 bytes after a total of 123456 bytes",
           "LLVM ERROR: out of memory",
           "ld: final link failed: memory exhausted",
           "nvcc fatal: Memory allocation failure",
           "ERROR:  out of memory DETAIL: Failed on request of size 2048.",
           "psql: could not allocate memory for the sort: out of memory",
           "ffmpeg: Error while decoding: Cannot allocate memory",
           "E: unable to allocate 33554432 bytes, out of memory",
           "engine.cpp:120: error: cudaMalloc of 4294967296 bytes failed: out of memory",
           "vkAllocateMemory failed: VK_ERROR_OUT_OF_DEVICE_MEMORY",
           "2024-05-02 11:02:13 CRITICAL trainer: GPU memory exhausted, aborting",
           "PHP Fatal error: Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes)",
           "Error: the model would need 12.4 GiB, not enough GPU memory",
           "ERROR could not allocate the frame: would exceed the memory limit of 2 GiB",
           "solver: fatal error: problem too large, not enough memory to solve it",
           "[E] fixed pool: failed to allocate 4096 MiB: out of memory",
           "error: the fixed-size arena is out of memory",
           "Error: Failed to initialize: insufficient VRAM",
           "worker[12]: killed: used too much memory",
       }) {
    EXPECT_EQ(failures_in(line), 1u) << line;
  }
}

TEST(Hearsay, WhatIsNotOverIsNot) {
  for (const char* line : {
           "I still get RuntimeError: CUDA error: out of memory, thanks in advance for any help",
           "The CUDA out of memory error is not solved by that",
           "solver: error: the fixed-size pool is out of memory",
           "RuntimeError: CUDA error: out of memory",
           "fatal: cannot allocate any more memory",
           "error: there is no free memory: allocation failed",
           "job 12: out of memory, stopped after 3 steps",
           "pool: out of memory: its size is fixed at 2 GiB",
           "out of memory: worker 3 is no longer alive",
           "error: the buffer used to get the size: memory allocation failed",
           "solver: managed to allocate 3 of 8 GB, out of memory",
           "error: network now closed, out of memory",
           "mpi had no memory left: allocation failed",
       }) {
    EXPECT_FALSE(is_over(line)) << line;
  }
}

}  // namespace
}  // namespace plimsoll::explain

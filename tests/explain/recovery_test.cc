#include "plimsoll/explain/recovery.h"

#include <gtest/gtest.h>

#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

constexpr const char* kRefused =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB "
    "of "
    "which 1.31 GiB is free.\n";

size_t failures_in(const std::string& log) { return read_log(*open_memory(log, "log")).failures.size(); }

TEST(Recovery, ProgramsSayThatTheyGoOn) {
  for (const char* line : {
           "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism",
           "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.",
           "WARNING: Attempting to copy inputs of <function iou at 0x7f> to CPU due to CUDA OOM",
           "pipeline: out of GPU memory, switching to sequential CPU offload and trying again",
           "Decreasing batch size to: 32",
           "Error CUDA out of memory. Tried to allocate 3.20 GiB (GPU 0; 7.79 GiB total capacity), reducing tile size "
           "to 256",
           "cudnn plan failed: CUDNN_STATUS_ALLOC_FAILED; trying the next plan with less workspace",
           "INFO: not enough memory, reading in chunks of 10000 rows instead",
           "Ignoring this choice.",
           "| WARNING: ran out of memory in worker 0, skipping batch",
           "skipping CUDA graph of batch size 512, running it eagerly",
           "[warn] could not load large-v3 on cuda, falling back to cpu (this may be slow)",
       }) {
    EXPECT_TRUE(says_it_goes_on(line)) << line;
  }
}

TEST(Recovery, AdviceAndStoriesAreNone) {
  for (const char* line : {
           "Try reducing the batch size or offloading to CPU.",
           "- reducing batch size to 1",
           "I tried everything: lowering the batch size, offloading to CPU",
           "Things that worked for others: reducing batch size, switching to a smaller model",
           "Possible solutions: reducing the memory fraction",
           "Falling back to the CPU works, with less memory, but it is slow.",
           "Falling back to fp16 with a smaller batch did not help either.",
           "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 8.00M.",
           "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation",
       }) {
    EXPECT_FALSE(says_it_goes_on(line)) << line;
  }
}

TEST(Recovery, WhatGoesOnIsNoFailure) {
  const std::string retry = kRefused + std::string("out of memory, retrying with a smaller batch\n");
  EXPECT_EQ(failures_in(retry), 0u);
  EXPECT_EQ(failures_in(retry + "step 11 loss 2.1\nValueError: no such file\n"), 0u)
      << "it died later, of something else";
}

TEST(Recovery, PlansOfCudnnThatFailAreNoFailure) {
  EXPECT_EQ(
      failures_in("conv.py:720: UserWarning: Plan failed with an " + std::string(kRefused) + "  return conv3d(\n"), 0u);
}

TEST(Recovery, WhatDiesAfterAllIsOne) {
  const std::string retry = kRefused + std::string("out of memory, retrying with a smaller batch\n");
  EXPECT_EQ(failures_in(retry + "giving up after 3 attempts\n"), 1u);
  EXPECT_EQ(failures_in(retry + "RuntimeError: No executable batch size found, reached zero.\n"), 1u);
  EXPECT_EQ(failures_in(retry + "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"), 1u);
  EXPECT_EQ(failures_in(retry + kRefused), 1u);
}

}  // namespace
}  // namespace plimsoll::explain

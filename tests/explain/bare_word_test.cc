// Device memory that was refused without a figure: nobody knows why, unless another line tells of the device.
#include <gtest/gtest.h>

#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/device_figures.h"
#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

constexpr const char* kBareWords[] = {
    "RuntimeError: CUDA error: out of memory",
    "torch.OutOfMemoryError: Allocation on device",
    "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58",
    "mxnet.base.MXNetError: [10:22:01] src/storage/./pooled_storage_manager.h:157: cudaMalloc failed: out of memory",
    "MemoryError: std::bad_alloc: CUDA error at: /rmm/mr/device/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation",
    "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
    "Error: llama runner process has terminated: CUDA error: out of memory",
    "[ONNXRuntimeError] : 1 : FAIL : onnxruntime::CudaCall CUDA failure 2: out of memory ; GPU=0 ; hostname=box",
    ("[METAL] Command buffer execution failed: Insufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"),
    "RuntimeError: CUDA failed with error out of memory",
    "RuntimeError: UR backend failed. UR backend returns:39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
    "zork: fatal: out of GPU memory",
};

Diagnosis only(std::string_view text) {
  const LogFindings findings = read_log(*open_memory(text, "log"));
  EXPECT_EQ(findings.failures.size(), 1u) << text;
  return findings.failures.empty() ? Diagnosis{} : diagnose(findings.failures[0]);
}

TEST(BareWord, IsUnknownWhoeverSaysIt) {
  for (const std::string word : kBareWords) {
    const Diagnosis diagnosis = only(word + "\n");
    EXPECT_EQ(diagnosis.cause, Cause::unknown) << word;
    EXPECT_EQ(diagnosis.confidence, Confidence::low) << word;
    EXPECT_GE(diagnosis.remedies.size(), 2u) << word;
  }
}

TEST(BareWord, IsAFullDeviceWhereALineBeforeOrAfterItTellsOfTheDevice) {
  for (const std::string word : kBareWords) {
    const std::string before = "model buffer: 5.31 GiB on the GPU\n\n";
    EXPECT_EQ(only(before + word + "\n").cause, Cause::device_full) << word;
    const std::string table = "\n| 30%   41C    P8   14W / 170W |  11801MiB / 12288MiB |      3%      Default |\n";
    EXPECT_EQ(only(word + "\n" + table).cause, Cause::device_full) << word;
  }
}

TEST(DeviceFigures, AreSizesBesideAWordForTheDevice) {
  for (const char* line : {
           "ggml_metal_init: recommendedMaxWorkingSetSize  =  5726.63 MB",
           "llama_kv_cache_init:      ROCm0 KV buffer size =   488.00 MiB",
           "Created device /device:GPU:0 with 6267 MB memory",
           "Iter 50: Train loss 1.4, Trained Tokens 26805, Peak mem 34.108 GB",
           "       1/80      5.31G      1.114   GPU_mem",
           "Total GPU memory (GiB): 140.06",
           "[TensorRT-LLM][INFO] Max tokens in paged KV cache: 117760. Allocating 54022635520 bytes.",
           "see_memory_usage: MA 5.63 GB         Max_MA 5.93 GB",
       }) {
    EXPECT_TRUE(tells_device_bytes(line)) << line;
  }
  for (const char* line : {
           "Downloading nvidia_cuda_runtime_cu12-12.1.105 (823 kB)",
           "torch-2.1.0+cu118-cp310.whl (2267.3 MB) for CUDA",
           "Device 0: NVIDIA A100-SXM4-80GB",
           "RuntimeError: CUDA error: out of memory",
           "E0301 07:44:15.902277 1 logging.cc:40] 1: [defaultAllocator.cpp::allocate::20] Cuda Runtime (out of "
           "memory)",
           "time=2024-06-18T13:23:19.008+02:00 level=ERROR msg=\"CUDA error: out of memory\"",
           "CPU Virtual Memory:  used = 2.49 GB, percent = 4.5%",
           "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
       }) {
    EXPECT_FALSE(tells_device_bytes(line)) << line;
  }
}

}  // namespace
}  // namespace plimsoll::explain

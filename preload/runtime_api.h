// The part of NVIDIA's runtime API that the preload library stands in front of, declared here so that it builds without
// the CUDA toolkit. Values and layouts are the runtime's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plimsoll/device/cuda/driver_api.h"

namespace plimsoll::preload {

using cuda::StreamHandle;
using RuntimeError = int;
using MemPoolHandle = void*;

inline constexpr RuntimeError kRuntimeSuccess = 0;
inline constexpr RuntimeError kInvalidValue = 1;
inline constexpr RuntimeError kMemoryAllocation = 2;
inline constexpr RuntimeError kRuntimeUnavailable = 35;  // cudaErrorInsufficientDriver

enum PoolAttribute : int {
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

struct PoolAccess {
  int location_type = 0;  // 1: a device
  int location_id = 0;
  int flags = 0;  // 0: none, 1: read, 3: read and write
};

// X(member, exported name, parameters): the functions behind ours, or that ours need. All return RuntimeError.
#define PLIMSOLL_CUDA_RUNTIME_CALLS(X)                                                                     \
  X(malloc, "cudaMalloc", (void** pointer, size_t bytes))                                                  \
  X(free, "cudaFree", (void* pointer))                                                                     \
  X(malloc_async, "cudaMallocAsync", (void** pointer, size_t bytes, StreamHandle stream))                  \
  X(malloc_from_pool_async, "cudaMallocFromPoolAsync",                                                     \
    (void** pointer, size_t bytes, MemPoolHandle pool, StreamHandle stream))                               \
  X(free_async, "cudaFreeAsync", (void* pointer, StreamHandle stream))                                     \
  X(mem_get_info, "cudaMemGetInfo", (size_t * free, size_t * total))                                       \
  X(pool_get_attribute, "cudaMemPoolGetAttribute", (MemPoolHandle pool, int attribute, void* value))       \
  X(pool_set_attribute, "cudaMemPoolSetAttribute", (MemPoolHandle pool, int attribute, void* value))       \
  X(pool_set_access, "cudaMemPoolSetAccess", (MemPoolHandle pool, const PoolAccess* access, size_t count)) \
  X(pool_trim_to, "cudaMemPoolTrimTo", (MemPoolHandle pool, size_t keep_bytes))                            \
  X(default_mem_pool, "cudaDeviceGetDefaultMemPool", (MemPoolHandle * pool, int device))                   \
  X(get_device, "cudaGetDevice", (int* device))                                                            \
  X(stream_destroy, "cudaStreamDestroy", (StreamHandle stream))                                            \
  X(begin_capture, "cudaStreamBeginCapture", (StreamHandle stream, int mode))                              \
  X(end_capture, "cudaStreamEndCapture", (StreamHandle stream, void** graph))                              \
  X(ipc_get_mem_handle, "cudaIpcGetMemHandle", (void* handle, void* pointer))

// The runtime that comes after this library in the process. Each function is looked up when it is first called: the
// runtime is often loaded later than we are.
struct Runtime {
#define PLIMSOLL_CUDA_RUNTIME_MEMBER(member, name, parameters) static RuntimeError(*member()) parameters;
  PLIMSOLL_CUDA_RUNTIME_CALLS(PLIMSOLL_CUDA_RUNTIME_MEMBER)
#undef PLIMSOLL_CUDA_RUNTIME_MEMBER
};

}  // namespace plimsoll::preload

// The part of NVIDIA's driver API that runs kernels, declared as driver_api.h does; found in the same library.
#pragma once

#include "plimsoll/device/cuda/driver_api.h"

namespace plimsoll::cuda {

using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;

inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;
inline constexpr int kFunctionMaxDynamicShared = 8;
inline constexpr int kCaptureThreadLocal = 1;

#define PLIMSOLL_CUDA_COMPUTE_CALLS(X)                                                                               \
  X(device_get_attribute, "cuDeviceGetAttribute", (int* value, int attribute, DeviceOrdinal device))                 \
  X(module_load_data, "cuModuleLoadData", (ModuleHandle * module, const void* image))                                \
  X(module_unload, "cuModuleUnload", (ModuleHandle module))                                                          \
  X(module_get_function, "cuModuleGetFunction", (FunctionHandle * function, ModuleHandle module, const char* name))  \
  X(func_set_attribute, "cuFuncSetAttribute", (FunctionHandle function, int attribute, int value))                   \
  X(launch_kernel, "cuLaunchKernel",                                                                                 \
    (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** arguments, void** extra))                  \
  X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2",                                                                       \
    (DevicePointer to, const void* from, size_t bytes, StreamHandle stream))                                         \
  X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2", (void* to, DevicePointer from, size_t bytes, StreamHandle stream))    \
  X(memcpy_async, "cuMemcpyAsync", (DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream))        \
  X(memcpy_htod, "cuMemcpyHtoD_v2", (DevicePointer to, const void* from, size_t bytes))                              \
  X(mem_alloc, "cuMemAlloc_v2", (DevicePointer * at, size_t bytes))                                                  \
  X(mem_free, "cuMemFree_v2", (DevicePointer at))                                                                    \
  X(memcpy_dtod_async, "cuMemcpyDtoDAsync_v2",                                                                       \
    (DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream))                                       \
  X(memset_d8_async, "cuMemsetD8Async", (DevicePointer at, unsigned char value, size_t count, StreamHandle stream))  \
  X(mem_host_alloc, "cuMemHostAlloc", (void** at, size_t bytes, unsigned flags))                                     \
  X(mem_free_host, "cuMemFreeHost", (void* at))                                                                      \
  X(launch_host_func, "cuLaunchHostFunc", (StreamHandle stream, void (*function)(void*), void* data))                \
  X(event_elapsed_time, "cuEventElapsedTime", (float* milliseconds, EventHandle start, EventHandle end))             \
  X(stream_begin_capture, "cuStreamBeginCapture_v2", (StreamHandle stream, int mode))                                \
  X(stream_end_capture, "cuStreamEndCapture", (StreamHandle stream, GraphHandle * graph))                            \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                                                \
    (GraphExecHandle * exec, GraphHandle graph, unsigned long long flags))                                           \
  X(graph_launch, "cuGraphLaunch", (GraphExecHandle exec, StreamHandle stream))                                      \
  X(graph_destroy, "cuGraphDestroy", (GraphHandle graph))                                                            \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExecHandle exec))

// As Driver: a table of functions of a library that stays loaded.
struct Compute {
  // DriverMissing where the library or a function is not there.
  static Compute load(const char* library = "libcuda.so.1");

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none
#define PLIMSOLL_CUDA_MEMBER(member, name, parameters) Result(*member) parameters = nullptr;
  PLIMSOLL_CUDA_COMPUTE_CALLS(PLIMSOLL_CUDA_MEMBER)
#undef PLIMSOLL_CUDA_MEMBER
};

}  // namespace plimsoll::cuda

// The part of NVIDIA's driver API that this project calls, declared here so that it builds without the CUDA toolkit.
// Names, values and layouts are the driver's own (its ABI is stable); tests/device/cuda_headers_test.cc compares them
// with cuda.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::cuda {

using Result = int;
using DeviceOrdinal = int;
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;
using Context = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorNotReady = 600;

inline constexpr int kAllocationPinned = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr unsigned kGranularityMinimum = 0;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kCaptureNone = 0;

struct Location {
  int type = kLocationDevice;
  int id = 0;
};

struct AllocationProperties {
  int type = kAllocationPinned;
  int handle_types = 0;
  Location location;
  void* win32_metadata = nullptr;
  struct Flags {
    unsigned char compression_type = 0;
    unsigned char gpu_direct_rdma_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};

struct AccessDescription {
  Location location;
  int flags = kAccessReadWrite;
};

// Every entry point of the table: X(member, exported name, parameters). All return Result.
#define PLIMSOLL_CUDA_DRIVER_CALLS(X)                                                                                  \
  X(init, "cuInit", (unsigned flags))                                                                                  \
  X(driver_get_version, "cuDriverGetVersion", (int* version))                                                          \
  X(get_error_name, "cuGetErrorName", (Result error, const char** text))                                               \
  X(get_error_string, "cuGetErrorString", (Result error, const char** text))                                           \
  X(device_get_count, "cuDeviceGetCount", (int* count))                                                                \
  X(device_get_name, "cuDeviceGetName", (char* name, int length, DeviceOrdinal device))                                \
  X(device_total_mem, "cuDeviceTotalMem_v2", (size_t * bytes, DeviceOrdinal device))                                   \
  X(device_get_pci_bus_id, "cuDeviceGetPCIBusId", (char* text, int length, DeviceOrdinal device))                      \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", (Context * context, DeviceOrdinal device))                         \
  X(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", (DeviceOrdinal device))                                       \
  X(ctx_get_current, "cuCtxGetCurrent", (Context * context))                                                           \
  X(ctx_set_current, "cuCtxSetCurrent", (Context context))                                                             \
  X(ctx_get_device, "cuCtxGetDevice", (DeviceOrdinal * device))                                                        \
  X(ctx_synchronize, "cuCtxSynchronize", ())                                                                           \
  X(mem_get_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                                  \
  X(mem_get_granularity, "cuMemGetAllocationGranularity",                                                              \
    (size_t * bytes, const AllocationProperties* properties, unsigned option))                                         \
  X(mem_address_reserve, "cuMemAddressReserve",                                                                        \
    (DevicePointer * range, size_t bytes, size_t alignment, DevicePointer hint, unsigned long long flags))             \
  X(mem_address_free, "cuMemAddressFree", (DevicePointer range, size_t bytes))                                         \
  X(mem_create, "cuMemCreate",                                                                                         \
    (AllocationHandle * handle, size_t bytes, const AllocationProperties* properties, unsigned long long flags))       \
  X(mem_release, "cuMemRelease", (AllocationHandle handle))                                                            \
  X(mem_map, "cuMemMap",                                                                                               \
    (DevicePointer at, size_t bytes, size_t offset, AllocationHandle handle, unsigned long long flags))                \
  X(mem_set_access, "cuMemSetAccess", (DevicePointer at, size_t bytes, const AccessDescription* access, size_t count)) \
  X(mem_unmap, "cuMemUnmap", (DevicePointer at, size_t bytes))                                                         \
  X(memset_d32_async, "cuMemsetD32Async", (DevicePointer at, unsigned value, size_t count, StreamHandle stream))       \
  X(memcpy_dtoh, "cuMemcpyDtoH_v2", (void* to, DevicePointer from, size_t bytes))                                      \
  X(stream_create, "cuStreamCreate", (StreamHandle * stream, unsigned flags))                                          \
  X(stream_destroy, "cuStreamDestroy_v2", (StreamHandle stream))                                                       \
  X(stream_synchronize, "cuStreamSynchronize", (StreamHandle stream))                                                  \
  X(stream_wait_event, "cuStreamWaitEvent", (StreamHandle stream, EventHandle event, unsigned flags))                  \
  X(stream_is_capturing, "cuStreamIsCapturing", (StreamHandle stream, int* status))                                    \
  X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                                    \
  X(event_create, "cuEventCreate", (EventHandle * event, unsigned flags))                                              \
  X(event_destroy, "cuEventDestroy_v2", (EventHandle event))                                                           \
  X(event_record, "cuEventRecord", (EventHandle event, StreamHandle stream))                                           \
  X(event_query, "cuEventQuery", (EventHandle event))                                                                  \
  X(event_synchronize, "cuEventSynchronize", (EventHandle event))

}  // namespace plimsoll::cuda

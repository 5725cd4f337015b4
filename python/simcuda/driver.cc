// The few entry points of the CUDA driver that PyTorch links to. This library bears the driver's name, so that it is
// found where the driver is asked for.
#include <cstdint>

#include "memory.h"

namespace {

int create(void** object) {
  static char object_of_all[64];
  return *object = object_of_all, 0;
}

constexpr int kNotFound = 500;

}  // namespace

extern "C" {

int cudaDeviceGetAttribute(int* value, int which, int device);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads, size_t shared_bytes);

// No device: what would look further for parts of the driver that are not here must not.
int cuInit(unsigned) { return 100; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0; }
int cuDeviceGetAttribute(int* value, int which, int device) { return cudaDeviceGetAttribute(value, which, device); }
int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) { return *flags = 0, *active = 1, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return create(context); }
int cuCtxGetCurrent(void** context) { return create(context); }
int cuCtxPopCurrent(void** context) { return create(context); }
int cuCtxPopCurrent_v2(void** context) { return create(context); }
int cuCtxGetDevice(int* device) { return *device = 0; }
int cuCtxGetLimit(size_t* value, int) { return *value = 1024, 0; }
int cuStreamGetCtx(void*, void** context) { return create(context); }
int cuGetErrorName(int, const char** text) { return *text = "CUDA_ERROR_SIMULATED", 0; }
int cuGetErrorString(int, const char** text) { return *text = "not on a simulated card", 0; }
int cuModuleLoad(void** module, const char*) { return create(module); }
int cuModuleLoadData(void** module, const void*) { return create(module); }
int cuModuleLoadDataEx(void** module, const void*, unsigned, void*, void*) { return create(module); }
int cuModuleGetFunction(void** function, void*, const char*) { return create(function); }
int cuLinkCreate_v2(unsigned, void*, void*, void** state) { return create(state); }
int cuLinkComplete(void*, void** binary, size_t* bytes) { return *bytes = 0, create(binary); }
int cuLinkCreate(unsigned, void*, void*, void** state) { return create(state); }
int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  return create(library);
}
int cuLibraryLoadFromFile(void** library, const char*, void*, void*, unsigned, void*, void*, unsigned) {
  return create(library);
}
int cuLibraryGetKernel(void** kernel, void*, const char*) { return create(kernel); }
int cuModuleLoadFatBinary(void** module, const void*) { return create(module); }
int cuModuleGetGlobal_v2(uintptr_t* address, size_t* bytes, void*, const char*) { return *address = 0, *bytes = 0, 0; }
int cuKernelGetAttribute(int* value, int, void*, int) { return *value = 0; }
int cuFuncGetAttribute(int* value, int, void*) { return *value = 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* kernel, int threads, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared_bytes);
}
// The context, the device number and the like of an address: all are of device 0.
int cuPointerGetAttribute(void* value, int, uintptr_t address) {
  if (!plimsoll::simcuda::is_device(reinterpret_cast<void*>(address))) return 1;
  return *static_cast<int*>(value) = 0;
}
// Whoever looks for the rest of the driver here is to find that there is none.
int cuGetProcAddress_v2(const char*, void** function, int, uint64_t, int* status) {
  *function = nullptr;
  if (status != nullptr) *status = 1;
  return kNotFound;
}

}  // extern "C"

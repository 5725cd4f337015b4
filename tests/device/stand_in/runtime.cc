// A stand-in for the CUDA runtime (libcudart.so) over the stand-in driver: the functions that the preload library finds
// behind its own. Memory that they give out is plain host memory, and counted, so that a test sees what went past the
// pool.
#include <atomic>
#include <cstdlib>

#include "plimsoll/device/cuda/driver_api.h"

using namespace plimsoll::cuda;

extern "C" {

Result cuDevicePrimaryCtxRetain(Context* context, DeviceOrdinal device);
Result cuCtxSetCurrent(Context context);
Result cuMemGetInfo_v2(size_t* free, size_t* total);
Result cuStreamCreate(StreamHandle* stream, unsigned flags);
Result cuStreamDestroy_v2(StreamHandle stream);
Result cuStreamBeginCapture_v2(StreamHandle stream, int mode);
Result cuStreamEndCapture(StreamHandle stream, void** graph);
Result cuStreamSynchronize(StreamHandle stream);
Result cuCtxSynchronize();

}  // extern "C"

namespace {

std::atomic<int64_t> passed = 0;  // allocations less frees that came here
std::atomic<int64_t> asked = 0;   // attributes of pools
thread_local int device = 0;
thread_local bool bound = false;
char pools[8];

void bind() {
  if (bound) return;
  Context context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
  bound = true;
}

int give(void** pointer, size_t bytes) {
  bind();
  ++passed;
  *pointer = bytes == 0 ? nullptr : std::malloc(bytes);
  return 0;
}

int take(void* pointer) {
  bind();
  if (pointer == nullptr) return 0;
  --passed;
  std::free(pointer);
  return 0;
}

}  // namespace

extern "C" {

int64_t stand_in_passed() { return passed; }
int64_t stand_in_attributes_passed() { return asked; }

int cudaSetDevice(int wanted) {
  device = wanted;
  bound = false;
  bind();
  return 0;
}
int cudaGetDevice(int* current) {
  *current = device;
  return 0;
}
int cudaMalloc(void** pointer, size_t bytes) { return give(pointer, bytes); }
int cudaFree(void* pointer) { return take(pointer); }
int cudaMallocAsync(void** pointer, size_t bytes, StreamHandle) { return give(pointer, bytes); }
int cudaMallocFromPoolAsync(void** pointer, size_t bytes, void*, StreamHandle) { return give(pointer, bytes); }
int cudaFreeAsync(void* pointer, StreamHandle) { return take(pointer); }
int cudaMemGetInfo(size_t* free, size_t* total) {
  bind();
  return cuMemGetInfo_v2(free, total);
}
int cudaDeviceGetDefaultMemPool(void** pool, int of) {
  *pool = &pools[of];
  return 0;
}
int cudaMemPoolGetAttribute(void*, int, void*) { return ++asked, 0; }
int cudaMemPoolSetAttribute(void*, int, void*) { return ++asked, 0; }
int cudaMemPoolSetAccess(void*, const void*, size_t) { return ++asked, 0; }
int cudaMemPoolTrimTo(void*, size_t) { return ++asked, 0; }
int cudaStreamCreateWithFlags(StreamHandle* stream, unsigned flags) {
  bind();
  return cuStreamCreate(stream, flags);
}
int cudaStreamDestroy(StreamHandle stream) { return cuStreamDestroy_v2(stream); }
int cudaStreamSynchronize(StreamHandle stream) { return cuStreamSynchronize(stream); }
int cudaDeviceSynchronize() {
  bind();
  return cuCtxSynchronize();
}
int cudaStreamBeginCapture(StreamHandle stream, int mode) { return cuStreamBeginCapture_v2(stream, mode); }
int cudaStreamEndCapture(StreamHandle stream, void** graph) { return cuStreamEndCapture(stream, graph); }
int cudaIpcGetMemHandle(void*, void*) { return 1; }

}  // extern "C"

// The library, its devices and contexts.
#include <cstring>

#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

extern "C" {

Result cuInit(unsigned) { return kSuccess; }

Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

Result cuGetErrorName(Result error, const char** text) {
  *text = error == kErrorOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR";
  return kSuccess;
}

Result cuGetErrorString(Result error, const char** text) {
  *text = error == kErrorOutOfMemory ? "out of memory" : "an error of the stand-in";
  return kSuccess;
}

Result cuDeviceGetCount(int* count) {
  *count = world().settings.devices;
  return kSuccess;
}

Result cuDeviceGetName(char* name, int length, DeviceOrdinal) {
  std::strncpy(name, "Stand-in", static_cast<size_t>(length));
  return kSuccess;
}

Result cuDeviceGetPCIBusId(char* text, int length, DeviceOrdinal device) {
  if (length < 13) return kInvalidValue;
  std::memcpy(text, "0000:1B:00.0", 13);
  text[11] = static_cast<char>('0' + device);
  return kSuccess;
}

Result cuDeviceTotalMem_v2(size_t* bytes, DeviceOrdinal) {
  *bytes = world().settings.card_bytes;
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(Context* context, DeviceOrdinal device) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kUnknown;
  ++w.retained[static_cast<size_t>(device)];
  *context = reinterpret_cast<Context>(static_cast<intptr_t>(device + 1));
  return kSuccess;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) {
  World& w = world();
  const Guard guard(w.mutex);
  --w.retained[static_cast<size_t>(device)];
  return kSuccess;
}

Result cuCtxGetCurrent(Context* context) {
  *context = reinterpret_cast<Context>(static_cast<intptr_t>(current_device + 1));
  return kSuccess;
}

Result cuCtxSetCurrent(Context context) {
  current_device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return kSuccess;
}

Result cuCtxGetDevice(DeviceOrdinal* device) {
  *device = current_device;
  return current_device < 0 ? kInvalidContext : kSuccess;
}

Result cuCtxSynchronize() {
  World& w = world();
  const Guard guard(w.mutex);
  if (current_device < 0) return kInvalidContext;
  for (const auto& [handle, stream] : w.streams) {
    if (stream.capturing) return kCaptureUnsupported;
  }
  while (step(w)) {
  }
  return kSuccess;
}

}  // extern "C"

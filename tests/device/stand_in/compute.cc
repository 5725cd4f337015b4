// The part of the driver that kernels need, but for kernels themselves: those are for a card.
#include <cstdlib>
#include <cstring>

#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

namespace {

char* place(DevicePointer at) { return reinterpret_cast<char*>(at); }

class Copy : public Call {
 public:
  Copy(char* to, const char* from, size_t bytes) : to_(to), from_(from), bytes_(bytes) {}
  void run(World& w) override {
    if (!is_there(w, to_, bytes_) || !is_there(w, from_, bytes_)) {
      ++w.counts.faults;
      return;
    }
    std::memcpy(to_, from_, bytes_);
  }
  std::shared_ptr<Call> again() const override { return std::make_shared<Copy>(*this); }

 private:
  char* to_;
  const char* from_;
  size_t bytes_;
};

class Set : public Call {
 public:
  Set(char* to, unsigned char value, size_t bytes) : to_(to), value_(value), bytes_(bytes) {}
  void run(World& w) override {
    if (!is_there(w, to_, bytes_)) {
      ++w.counts.faults;
      return;
    }
    std::memset(to_, value_, bytes_);
  }
  std::shared_ptr<Call> again() const override { return std::make_shared<Set>(*this); }

 private:
  char* to_;
  unsigned char value_;
  size_t bytes_;
};

Result put_call(StreamHandle stream, std::shared_ptr<Call> call) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kUnknown;
  return put(w, stream, {.kind = Work::Kind::call, .call = std::move(call)});
}

}  // namespace

extern "C" {

Result cuDeviceGetAttribute(int* value, int attribute, DeviceOrdinal) {
  *value = attribute == kAttributeMajor ? 9 : attribute == kAttributeMultiprocessors ? 4 : 0;
  return kSuccess;
}

Result cuMemAlloc_v2(DevicePointer* at, size_t bytes) {
  World& w = world();
  const Guard guard(w.mutex);
  if (prohibited(w)) return kCaptureUnsupported;
  if (fails(w)) return kErrorOutOfMemory;
  if (current_device < 0) return kInvalidContext;
  *at = reinterpret_cast<DevicePointer>(std::calloc(1, bytes));
  w.allocations[*at] = {current_device, bytes};
  return kSuccess;
}

Result cuMemFree_v2(DevicePointer at) {
  World& w = world();
  const Guard guard(w.mutex);
  if (w.allocations.erase(at) == 0) return kInvalidValue;
  std::free(place(at));
  return kSuccess;
}

Result cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kErrorOutOfMemory;
  *at = std::calloc(1, bytes);
  return kSuccess;
}

Result cuMemFreeHost(void* at) {
  std::free(at);
  return kSuccess;
}

Result cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream) {
  return put_call(stream, std::make_shared<Copy>(place(to), place(from), bytes));
}

Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, StreamHandle stream) {
  return cuMemcpyAsync(to, reinterpret_cast<DevicePointer>(from), bytes, stream);
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, StreamHandle stream) {
  return cuMemcpyAsync(reinterpret_cast<DevicePointer>(to), from, bytes, stream);
}

Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kUnknown;
  if (!is_there(w, place(to), bytes)) return kInvalidValue;
  std::memcpy(place(to), from, bytes);
  return kSuccess;
}

Result cuMemsetD8Async(DevicePointer at, unsigned char value, size_t count, StreamHandle stream) {
  return put_call(stream, std::make_shared<Set>(place(at), value, count));
}

Result cuEventElapsedTime(float* milliseconds, EventHandle, EventHandle) {
  *milliseconds = 1;
  return kSuccess;
}

Result cuLaunchHostFunc(StreamHandle, void (*)(void*), void*) { return kNotSupported; }
Result cuModuleLoadData(ModuleHandle*, const void*) { return kNotSupported; }
Result cuModuleUnload(ModuleHandle) { return kNotSupported; }
Result cuModuleGetFunction(FunctionHandle*, ModuleHandle, const char*) { return kNotSupported; }
Result cuFuncSetAttribute(FunctionHandle, int, int) { return kNotSupported; }
Result cuLaunchKernel(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      StreamHandle, void**, void**) {
  return kNotSupported;
}

}  // extern "C"

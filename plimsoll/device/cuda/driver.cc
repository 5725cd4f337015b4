#include "plimsoll/device/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace plimsoll::cuda {
namespace {

void* open_library(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* const why = dlerror();
  throw DriverMissing(
      fmt::format("no NVIDIA driver: {} not found ({}); install the driver, or run on a machine that "
                  "has one",
                  library, why != nullptr ? why : "no reason given"));
}

void* find(void* library, const char* name, const std::string& path) {
  void* const symbol = dlsym(library, name);
  if (symbol != nullptr) return symbol;
  throw DriverMissing(
      fmt::format("the NVIDIA driver in {} has no {}: it is too old, version 11.4 or later is needed", path, name));
}

}  // namespace

Driver Driver::load(const std::string& library) {
  void* const handle = open_library(library);
  Driver driver;
#define PLIMSOLL_CUDA_FIND(member, name, parameters) \
  driver.member = reinterpret_cast<decltype(driver.member)>(find(handle, name, library));
  PLIMSOLL_CUDA_DRIVER_CALLS(PLIMSOLL_CUDA_FIND)
#undef PLIMSOLL_CUDA_FIND
  const Result result = driver.init(0);
  if (result != kSuccess) {
    throw DriverMissing(
        fmt::format("the NVIDIA driver in {} does not start: cuInit says {}", library, driver.describe(result)));
  }
  return driver;
}

std::string Driver::describe(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  get_error_name(result, &name);
  get_error_string(result, &text);
  if (name == nullptr) return fmt::format("error {}", result);
  return fmt::format("{} ({})", name, text != nullptr ? text : "no description");
}

void Driver::fail(Result result, std::string_view doing) const {
  throw DriverError(fmt::format("{} failed: {}", doing, describe(result)), result);
}

int Driver::device_count() const {
  int count = 0;
  check(device_get_count(&count), "cuDeviceGetCount");
  return count;
}

std::string Driver::device_name(DeviceOrdinal device) const {
  char name[256] = {};
  check(device_get_name(name, sizeof name - 1, device), fmt::format("cuDeviceGetName of device {}", device));
  return name;
}

std::string Driver::version() const {
  int version = 0;
  check(driver_get_version(&version), "cuDriverGetVersion");
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

CurrentDevice::CurrentDevice(const Driver& driver, DeviceOrdinal device) : driver_(driver), device_(device) {
  driver_.check(driver_.ctx_get_current(&before_), "cuCtxGetCurrent");
  Context context = nullptr;
  driver_.check(driver_.primary_ctx_retain(&context, device), fmt::format("starting CUDA on device {}", device));
  const Result result = driver_.ctx_set_current(context);
  if (result == kSuccess) return;
  driver_.primary_ctx_release(device);
  driver_.fail(result, "cuCtxSetCurrent");
}

CurrentDevice::~CurrentDevice() {
  driver_.ctx_set_current(before_);
  driver_.primary_ctx_release(device_);
}

}  // namespace plimsoll::cuda

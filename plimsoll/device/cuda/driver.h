// NVIDIA's driver as a table of functions, filled from libcuda.so.1 at run time: one binary runs with and without a
// GPU, and tests load a stand-in from another path. Copies of a Driver are cheap and share the library, which stays
// loaded. Thread-safe, as the driver is.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/driver_api.h"

namespace plimsoll::cuda {

// There is no usable driver: the message says which library or function is missing, or what the driver said.
class DriverMissing : public UnsupportedError {
 public:
  using UnsupportedError::UnsupportedError;
};

// A call of the driver failed: "cuMemMap of 2.00 MiB failed: CUDA_ERROR_INVALID_VALUE (invalid argument)".
class DriverError : public SystemError {
 public:
  DriverError(const std::string& message, Result result) : SystemError(message), result_(result) {}
  Result result() const { return result_; }

 private:
  Result result_;
};

struct Driver {
  // Loads and initialises the driver. DriverMissing.
  static Driver load(const std::string& library = "libcuda.so.1");

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none
#define PLIMSOLL_CUDA_MEMBER(member, name, parameters) Result(*member) parameters = nullptr;
  PLIMSOLL_CUDA_DRIVER_CALLS(PLIMSOLL_CUDA_MEMBER)
#undef PLIMSOLL_CUDA_MEMBER

  // DriverError unless `result` is success; `doing` opens the message.
  void check(Result result, std::string_view doing) const {
    if (result != kSuccess) fail(result, doing);
  }
  [[noreturn]] void fail(Result result, std::string_view doing) const;
  std::string describe(Result result) const;  // "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"

  int device_count() const;
  std::string device_name(DeviceOrdinal device) const;
  std::string version() const;  // "13.0"
};

// Makes the primary context of a device current for this thread while it lives, and keeps a reference to it.
class CurrentDevice {
 public:
  CurrentDevice(const Driver& driver, DeviceOrdinal device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const Driver& driver_;
  DeviceOrdinal device_;
  Context before_ = nullptr;
};

// Lets this thread make calls that a stream capture elsewhere in the process would otherwise refuse.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.thread_exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { driver_.thread_exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  int mode_ = kCaptureRelaxed;
};

}  // namespace plimsoll::cuda

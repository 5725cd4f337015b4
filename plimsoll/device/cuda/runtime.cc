#include "plimsoll/device/cuda/runtime.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"

namespace plimsoll::cuda {
namespace {

Runtime*& used_last() {
  static Runtime* runtime = nullptr;
  return runtime;
}

// Starts the context of a card; what it took of the card's memory goes to `overhead`.
Context start(const Driver& driver, DeviceOrdinal ordinal, int64_t& overhead) {
  const int count = driver.device_count();
  if (ordinal < 0 || ordinal >= count) {
    throw ArgumentError(fmt::format("there is no card cuda:{}: this machine has {}", ordinal, count));
  }
  Context context = nullptr;
  driver.check(driver.primary_ctx_retain(&context, ordinal), fmt::format("starting CUDA on device {}", ordinal));
  driver.check(driver.ctx_set_current(context), "cuCtxSetCurrent");
  size_t free = 0;
  size_t total = 0;
  driver.check(driver.mem_get_info(&free, &total), "cuMemGetInfo");
  overhead = static_cast<int64_t>(total - free);
  return context;
}

std::string architecture_of(const Driver& driver, const Compute& compute, DeviceOrdinal ordinal) {
  int major = 0;
  int minor = 0;
  driver.check(compute.device_get_attribute(&major, kAttributeMajor, ordinal), "cuDeviceGetAttribute");
  driver.check(compute.device_get_attribute(&minor, kAttributeMinor, ordinal), "cuDeviceGetAttribute");
  if (major < 8) {
    throw UnsupportedError(fmt::format("card cuda:{} ({}) has compute capability {}.{}, 8.0 or later is needed",
                                       ordinal, driver.device_name(ordinal), major, minor));
  }
  // With what only that generation has.
  return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
}

}  // namespace

Runtime::Runtime(DeviceOrdinal ordinal)
    : driver_(Driver::load()),
      compute_(Compute::load()),
      ordinal_(ordinal),
      context_(start(driver_, ordinal, overhead_bytes_)),
      architecture_(architecture_of(driver_, compute_, ordinal)),
      modules_(driver_, compute_, architecture_) {
  check(compute_.device_get_attribute(&multiprocessors_, kAttributeMultiprocessors, ordinal), "cuDeviceGetAttribute");
  use();
}

Runtime& Runtime::current() {
  if (used_last() == nullptr) throw UnsupportedError("no card is in use: kernels of cuda are bound after its device");
  return *used_last();
}

bool Runtime::exists() { return used_last() != nullptr; }

void Runtime::use() {
  used_last() = this;
  check(driver_.ctx_set_current(context_), "cuCtxSetCurrent");
}

std::byte* Runtime::host_room(int64_t bytes) {
  std::byte*& workspace = rooms_[bytes];
  if (workspace == nullptr) {
    void* at = nullptr;
    check(compute_.mem_host_alloc(&at, static_cast<size_t>(bytes), 0), "cuMemHostAlloc");
    workspace = static_cast<std::byte*>(at);
  }
  return workspace;
}

const CublasLt* Runtime::blas() {
  if (!asked_blas_) {
    asked_blas_ = true;
    blas_ = CublasLt::find();
    if (blas_ != nullptr) CublasLt::check(blas_->create(&blas_handle_), "cublasLtCreate");
  }
  return blas_;
}

const Cudnn* Runtime::dnn() {
  if (!asked_dnn_) {
    asked_dnn_ = true;
    dnn_ = Cudnn::find();
    if (dnn_ != nullptr) dnn_->check(dnn_->create(&dnn_handle_), "cudnnCreate");
  }
  return dnn_;
}

}  // namespace plimsoll::cuda

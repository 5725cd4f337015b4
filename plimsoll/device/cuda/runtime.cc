#include "plimsoll/device/cuda/runtime.h"

#include <fmt/format.h>

#include <atomic>
#include <optional>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/bus_id.h"
#include "plimsoll/device/cuda/nvml.h"

namespace plimsoll::cuda {
namespace {

// By any thread, and by this one.
std::atomic<Runtime*> used_last = nullptr;
thread_local Runtime* used_here = nullptr;

Runtime* used() { return used_here != nullptr ? used_here : used_last.load(); }

// What everyone has of the card's memory, context or not; nothing where NVML does not tell.
std::optional<int64_t> used_by_all(const Driver& driver, DeviceOrdinal ordinal) {
  char bus_id[32] = {};
  if (driver.device_get_pci_bus_id(bus_id, sizeof bus_id, ordinal) != kSuccess) return std::nullopt;
  for (const CardMemory& card : card_memory()) {
    if (normal_bus_id(card.bus_id) == normal_bus_id(bus_id)) return card.used_bytes;
  }
  return std::nullopt;
}

// Starts the context of a card; what it took of the card's memory goes to `overhead`. Where nobody tells what was in
// use before, all that is in use.
Context start(const Driver& driver, DeviceOrdinal ordinal, int64_t& overhead) {
  const int count = driver.device_count();
  if (ordinal < 0 || ordinal >= count) {
    throw ArgumentError(fmt::format("there is no card cuda:{}: this machine has {}", ordinal, count));
  }
  const std::optional<int64_t> before = used_by_all(driver, ordinal);
  Context context = nullptr;
  driver.check(driver.primary_ctx_retain(&context, ordinal), fmt::format("starting CUDA on device {}", ordinal));
  driver.check(driver.ctx_set_current(context), "cuCtxSetCurrent");
  size_t free = 0;
  size_t total = 0;
  driver.check(driver.mem_get_info(&free, &total), "cuMemGetInfo");
  const std::optional<int64_t> after = used_by_all(driver, ordinal);
  overhead = before && after && *after > *before ? *after - *before : static_cast<int64_t>(total - free);
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
  free_at_start_ = free_bytes();
}

Runtime& Runtime::current() {
  Runtime* const runtime = used();
  if (runtime == nullptr) throw UnsupportedError("no card is in use: kernels of cuda are bound after its device");
  return *runtime;
}

bool Runtime::exists() { return used() != nullptr; }

void Runtime::use() {
  used_last = used_here = this;
  check(driver_.ctx_set_current(context_), "cuCtxSetCurrent");
}

int64_t Runtime::free_bytes() const {
  size_t free = 0;
  size_t total = 0;
  check(driver_.mem_get_info(&free, &total), "cuMemGetInfo");
  return static_cast<int64_t>(free);
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

#include <dlfcn.h>
#include <fmt/format.h>

#include "plimsoll/device/cuda/compute_api.h"
#include "plimsoll/device/cuda/driver.h"

namespace plimsoll::cuda {

Compute Compute::load(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw DriverMissing(fmt::format("no NVIDIA driver: {} not found", library));
  const auto find = [&](const char* name) {
    void* const symbol = dlsym(handle, name);
    if (symbol != nullptr) return symbol;
    throw DriverMissing(fmt::format("the NVIDIA driver in {} has no {}: it is too old, version 11.4 or later is needed",
                                    library, name));
  };
  Compute compute;
#define PLIMSOLL_CUDA_FIND(member, name, parameters) \
  compute.member = reinterpret_cast<decltype(compute.member)>(find(name));
  PLIMSOLL_CUDA_COMPUTE_CALLS(PLIMSOLL_CUDA_FIND)
#undef PLIMSOLL_CUDA_FIND
  return compute;
}

}  // namespace plimsoll::cuda

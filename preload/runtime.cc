#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/runtime_api.h"

namespace plimsoll::preload {
namespace {

int remember_cudart(dl_phdr_info* info, size_t /*size*/, void* found) {
  if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, "libcudart") == nullptr) return 0;
  *static_cast<void**>(found) = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
  return 1;
}

// RTLD_NEXT sees what the program links with and what was loaded for all to see; a runtime that a Python module
// brought along for itself is found by its name.
void* find_next(const char* name) {
  if (void* const next = dlsym(RTLD_NEXT, name)) return next;
  void* cudart = nullptr;
  dl_iterate_phdr(remember_cudart, &cudart);
  if (cudart != nullptr) {
    if (void* const symbol = dlsym(cudart, name)) return symbol;
  }
  std::fprintf(stderr, "plimsoll: %s was called, but no CUDA runtime that has it is loaded\n", name);
  return nullptr;
}

template <typename... Parameters>
RuntimeError unavailable(Parameters...) {
  return kRuntimeUnavailable;
}

}  // namespace

#define PLIMSOLL_CUDA_RUNTIME_FIND(member, name, parameters)   \
  RuntimeError(*Runtime::member()) parameters {                \
    using Function = RuntimeError(*) parameters;               \
    static std::atomic<Function> found = nullptr;              \
    Function function = found.load(std::memory_order_relaxed); \
    if (function != nullptr) return function;                  \
    function = reinterpret_cast<Function>(find_next(name));    \
    if (function == nullptr) return unavailable;               \
    found.store(function, std::memory_order_relaxed);          \
    return function;                                           \
  }
PLIMSOLL_CUDA_RUNTIME_CALLS(PLIMSOLL_CUDA_RUNTIME_FIND)
#undef PLIMSOLL_CUDA_RUNTIME_FIND

}  // namespace plimsoll::preload

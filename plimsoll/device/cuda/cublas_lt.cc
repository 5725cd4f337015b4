#include "plimsoll/device/cuda/cublas_lt.h"

#include <fmt/format.h>

#include <optional>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/library.h"

namespace plimsoll::cuda {
namespace {

std::optional<CublasLt> load() {
  const Library library = find_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  if (library.handle == nullptr) return std::nullopt;
  CublasLt lt;
  lt.path = library.path;
#define PLIMSOLL_CUDA_FIND(member, name, parameters) PLIMSOLL_CUDA_FIND_IN(library, lt, member, name)
  PLIMSOLL_CUBLAS_LT_CALLS(PLIMSOLL_CUDA_FIND)
#undef PLIMSOLL_CUDA_FIND
  find_function(library.handle, "cublasLtGetVersion", lt.version);
  return lt;
}

}  // namespace

const CublasLt* CublasLt::find() {
  static const std::optional<CublasLt> loaded = load();
  return loaded ? &*loaded : nullptr;
}

void CublasLt::check(int status, const char* doing) {
  if (status != 0) throw SystemError(fmt::format("{} failed: cuBLAS status {}", doing, status));
}

}  // namespace plimsoll::cuda

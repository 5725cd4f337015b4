#include "plimsoll/device/cuda/cudnn.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <optional>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/library.h"

namespace plimsoll::cuda {
namespace {

std::optional<Cudnn> load() {
  const Library library = find_library({"libcudnn.so.9"});
  if (library.handle == nullptr) return std::nullopt;
  Cudnn dnn;
  dnn.path = library.path;
#define PLIMSOLL_CUDA_FIND(member, name, parameters)                                \
  dnn.member = reinterpret_cast<decltype(dnn.member)>(dlsym(library.handle, name)); \
  if (dnn.member == nullptr) return std::nullopt;
  PLIMSOLL_CUDNN_CALLS(PLIMSOLL_CUDA_FIND)
#undef PLIMSOLL_CUDA_FIND
  dnn.error_text = reinterpret_cast<decltype(dnn.error_text)>(dlsym(library.handle, "cudnnGetErrorString"));
  dnn.version = reinterpret_cast<decltype(dnn.version)>(dlsym(library.handle, "cudnnGetVersion"));
  return dnn;
}

}  // namespace

const Cudnn* Cudnn::find() {
  static const std::optional<Cudnn> loaded = load();
  return loaded ? &*loaded : nullptr;
}

void Cudnn::check(int status, const char* doing) const {
  if (status == 0) return;
  throw SystemError(fmt::format("{} failed: {}", doing,
                                error_text != nullptr ? error_text(status) : fmt::format("cuDNN status {}", status)));
}

}  // namespace plimsoll::cuda

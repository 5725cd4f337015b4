#include "plimsoll/device/cuda/cudnn.h"

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
#define PLIMSOLL_CUDA_FIND(member, name, parameters) PLIMSOLL_CUDA_FIND_IN(library, dnn, member, name)
  PLIMSOLL_CUDNN_CALLS(PLIMSOLL_CUDA_FIND)
#undef PLIMSOLL_CUDA_FIND
  find_function(library.handle, "cudnnGetErrorString", dnn.error_text);
  find_function(library.handle, "cudnnGetVersion", dnn.version);
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
